"""The loader: aligned direct reads, short reads, a declared bandwidth, and errors that name what failed."""

import errno
import mmap
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.experts import Arena
from estream_lab.streaming import Store
from estream_lab.streaming import files as files_module
from estream_lab.streaming.files import DirectFile, open_direct
from estream_lab.streaming.loader import GroupRead, Loader, TokenBucket, _window
from estream_lab.streaming.plan import WaitLimit
from tests.stores import synthetic_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(synthetic_store(tmp_path))


def read_group(
    store: Store, layer: int, group: int, size: int, **options: Any
) -> tuple[np.ndarray, tuple[int, int, int]]:
    arena = Arena(1, size, store.stride, poison=True)
    count = len(store.layers[layer].group_experts(group, size))
    loader = Loader(store, 1, **options)
    try:
        took = loader.submit(GroupRead(layer, group, size, arena.bank_view(0, count, store.stride))).result()
    finally:
        loader.close()
    return arena.memory[: count * store.stride].copy(), took


@pytest.mark.parametrize(("layer", "group", "size"), [(0, 0, 4), (1, 2, 4), (2, 9, 1), (2, 0, 10)])
def test_a_group_arrives_byte_for_byte(store: Store, layer: int, group: int, size: int) -> None:
    content, (start, end, count) = read_group(store, layer, group, size)
    whole = store.experts_path.read_bytes()
    first = store.layers[layer].offset + group * size * store.stride
    assert content.tobytes() == whole[first : first + len(content)]
    assert count == len(content) and end > start


@pytest.mark.parametrize("piece", [4096, 5000, 70_000])
def test_short_reads_go_on_at_a_page(store: Store, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    offsets = []

    def short(self: DirectFile, views: list[memoryview], offset: int) -> int:
        offsets.append(offset)
        return min(piece, os.preadv(self.fd, _window(views, 0, -(-piece // 4096) * 4096), offset))

    monkeypatch.setattr(DirectFile, "read_into", short)
    content, _ = read_group(store, 1, 0, 4)
    assert content.tobytes() == store.experts_path.read_bytes()[store.layers[1].offset :][: len(content)]
    assert all(offset % 4096 == 0 for offset in offsets) and len(offsets) > (piece < len(content))


def test_as_many_reads_as_the_queue_is_deep_are_outstanding_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, real = threading.Barrier(3, timeout=60), Loader._read  # one thread alone would break it

    def meet(self: Loader, read: GroupRead) -> tuple[int, int, int]:
        together.wait()
        return real(self, read)

    monkeypatch.setattr(Loader, "_read", meet)
    arena, loader = Arena(3, 2, store.stride), Loader(store, 3)
    reads = [loader.submit(GroupRead(0, g, 2, arena.bank_view(g, 2, store.stride))) for g in range(3)]
    assert [read.result()[2] for read in reads] == [2 * store.stride] * 3
    loader.close()


def test_waiting_allows_for_a_declared_bandwidth() -> None:
    assert WaitLimit.of(None, 10**9).seconds == 130  # at 10 MB/s
    assert WaitLimit.of(1e9, 10**9).seconds == 130
    assert WaitLimit.of(1e6, 10**9).seconds == 1030


def test_a_file_cut_off_in_use_is_an_error_not_wrong_weights(store: Store) -> None:
    os.truncate(store.experts_path, store.layers[2].offset + 3 * store.stride)
    with pytest.raises(EStreamError, match="ended .* bytes early in group 0 of layer 2"):
        read_group(store, 2, 0, 10)


def test_a_failing_disk_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: DirectFile, views: list[memoryview], offset: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(DirectFile, "read_into", fail)
    with pytest.raises(EStreamError, match="reading group 1 of layer 0 .*Input/output error"):
        read_group(store, 0, 1, 4)


def test_without_direct_io_reads_fall_back_and_say_why(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def refuse(path: Any, flags: int, *rest: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(path, flags, *rest)

    monkeypatch.setattr(files_module.os, "open", refuse)
    opened = open_direct(store.experts_path)
    assert not opened.direct and "Invalid argument" in opened.reason
    opened.close()
    dropped = []
    monkeypatch.setattr(
        files_module.os, "posix_fadvise", lambda fd, *range_and_advice: dropped.append(range_and_advice)
    )
    content, _ = read_group(store, 0, 0, 3)
    assert dropped == [(0, len(content), os.POSIX_FADV_DONTNEED)]  # page cache is memory that nobody counts
    assert content.tobytes() == store.experts_path.read_bytes()[: len(content)]


def test_a_missing_file_is_not_taken_for_missing_direct_io(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match="can't open .*No such file"):
        open_direct(tmp_path / "gone.bin")


def test_a_declared_bandwidth_is_kept_on_a_virtual_clock() -> None:
    now = [10.0]
    bucket = TokenBucket(1000.0, clock=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    for _ in range(5):
        bucket.take(200)
    assert now[0] == pytest.approx(11.0)
    now[0] += 5.0  # idle time gives no credit: no burst
    bucket.take(1000)
    assert now[0] == pytest.approx(17.0)
    with pytest.raises(EStreamError, match="must be positive"):
        TokenBucket(0)


def test_the_declared_bandwidth_acts_on_a_real_read(store: Store) -> None:
    content, (start, end, count) = read_group(store, 0, 0, 10, read_bandwidth=2e6)
    assert content.tobytes() == store.experts_path.read_bytes()[: len(content)]
    assert end - start >= 0.99e9 * count / 2e6  # a token bucket only ever makes reads slower


@pytest.mark.parametrize("settle", [True, False])
def test_a_read_that_waits_for_bandwidth_can_be_given_up(
    store: Store, monkeypatch: pytest.MonkeyPatch, settle: bool
) -> None:
    waits, real = threading.Event(), TokenBucket.take

    def take(self: TokenBucket, count: int) -> None:
        waits.set()
        real(self, count)

    monkeypatch.setattr(TokenBucket, "take", take)
    loader = Loader(store, 1, read_bandwidth=1e-3)  # years for a group
    view = memoryview(mmap.mmap(-1, store.stride))
    reads = [loader.submit(GroupRead(0, group, 1, [view])) for group in range(2)]
    assert waits.wait(60)
    if settle:
        loader.settle(60.0)
    loader.close()
    with pytest.raises(EStreamError, match="group 0 of layer 0 was given up"):
        reads[0].result()
    assert reads[1].cancelled()


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4), data=st.data()
)  # fmt: skip
def test_a_window_is_a_slice_of_the_views_as_one_sequence(sizes: list[int], data: st.DataObject) -> None:
    whole = bytes(range(sum(sizes)))
    views, at = [], 0
    for size in sizes:
        views.append(memoryview(whole)[at : at + size])
        at += size
    skip = data.draw(st.integers(0, len(whole) - 1))
    count = data.draw(st.integers(1, len(whole) - skip))
    assert b"".join(_window(views, skip, count)) == whole[skip : skip + count]
