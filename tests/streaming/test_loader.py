"""The loader: aligned direct reads, short reads, a declared bandwidth, and errors that name what failed."""

import errno
import fcntl
import gc
import mmap
import os
import threading
import time
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.experts import Arena
from estream_lab.streaming import Store
from estream_lab.streaming import files as files_module
from estream_lab.streaming import loader as loader_module
from estream_lab.streaming.bandwidth import SLICE_BYTES, TokenBucket
from estream_lab.streaming.files import DirectFile, open_direct
from estream_lab.streaming.loader import GroupRead, Loader, _window, verify_records
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


@pytest.mark.parametrize("piece", [1000, 4095])
def test_direct_reads_that_stop_within_a_page_go_on_buffered(
    store: Store, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    """The next direct read would have to start where the last began, for ever."""
    real = os.preadv

    def short(fd: int, views: list[memoryview], offset: int) -> int:
        got = min(piece, real(fd, views, offset))
        for view in _window(views, got, 1 << 20):  # what lies behind is not what the file holds
            view[:] = bytes(len(view))
        return got

    monkeypatch.setattr(files_module.os, "preadv", short)
    content, _ = read_group(store, 1, 0, 2)
    assert content.tobytes() == store.experts_path.read_bytes()[store.layers[1].offset :][: len(content)]


def test_as_many_reads_as_the_queue_is_deep_are_outstanding_at_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, real = threading.Barrier(3, timeout=60), Loader._read  # one thread alone would break it

    def meet(self: Loader, read: GroupRead, asked_ns: int) -> tuple[int, int, int]:
        together.wait()
        return real(self, read, asked_ns)

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
    loader, arena = Loader(store, 1), Arena(1, 10, store.stride)
    os.truncate(store.experts_path, store.layers[2].offset + 3 * store.stride)
    with pytest.raises(EStreamError, match="ended .* bytes early in group 0 of layer 2"):
        loader.submit(GroupRead(2, 0, 10, arena.bank_view(0, 10, store.stride))).result()
    loader.close()


def test_a_file_of_another_size_than_the_manifests_is_refused_at_once(store: Store) -> None:
    os.truncate(store.experts_path, 4096)
    with pytest.raises(EStreamError, match="has 4096 bytes where the manifest says .* since the store was opened"):
        Loader(store, 1)


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


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.EINTR])
@pytest.mark.parametrize("times", [1, 11])
def test_busy_storage_is_asked_again_with_patience_that_ends(
    store: Store, monkeypatch: pytest.MonkeyPatch, number: int, times: int
) -> None:
    calls, waits, real = [], [], os.preadv

    class Clock(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout)
            return False

    def busy(fd: int, views: list[memoryview], offset: int) -> int:
        calls.append(offset)
        if len(calls) <= times:
            raise OSError(number, os.strerror(number))
        return real(fd, views, offset)

    monkeypatch.setattr(files_module.os, "preadv", busy)
    monkeypatch.setattr(Loader, "_renew", _renew_with(Clock))
    if times == 1:
        content, _ = read_group(store, 0, 0, 3)
        assert content.tobytes() == store.experts_path.read_bytes()[: len(content)]
    else:
        sentence = (
            f"group 0 of layer 0 from .* failed: {os.strerror(number)}, 11 times: wait until storage is less busy"
        )
        with pytest.raises(EStreamError, match=sentence):
            read_group(store, 0, 0, 3)
        assert sum(waits) == pytest.approx(2.047)
    assert waits == loader_module.BUSY_WAITS[:times]


def _renew_with(clock: type[threading.Event]) -> Any:
    real = Loader._renew

    def renew(self: Loader) -> None:
        real(self)
        self._stop = clock()

    return renew


def test_direct_io_that_opens_but_does_not_read_falls_back(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some file systems take the flag and refuse the read."""
    real, refused = os.preadv, []

    def refuse(fd: int, views: list[memoryview], offset: int) -> int:
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(offset)
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(fd, views, offset)

    monkeypatch.setattr(files_module.os, "preadv", refuse)
    loader, arena = Loader(store, 1), Arena(1, 3, store.stride)
    assert loader.direct and not loader.fallback_reason
    for _ in range(2):
        loader.submit(GroupRead(0, 0, 3, arena.bank_view(0, 3, store.stride))).result()
    assert arena.memory.tobytes() == store.experts_path.read_bytes()[: arena.nbytes]
    assert not loader.direct and loader.fallback_reason == "direct reads fail here: Invalid argument"
    assert len(refused) == 1
    loader.close()


def test_a_read_that_is_wrong_without_direct_io_is_no_reason_to_fall_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(fd: int, views: list[memoryview], offset: int) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(files_module.os, "preadv", refuse)
    with pytest.raises(EStreamError, match="Invalid argument: check the disk"):
        read_group(store, 0, 0, 3)


def test_a_reading_thread_that_dies_says_which_read_it_was(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(self: DirectFile, views: list[memoryview], offset: int) -> int:
        raise SystemExit

    monkeypatch.setattr(DirectFile, "read_into", die)
    with pytest.raises(EStreamError, match=r"group 1 of layer 0 .* the reading thread died \(SystemExit\(\)\): run"):
        read_group(store, 0, 1, 4)


@pytest.fixture
def hung(store: Store, monkeypatch: pytest.MonkeyPatch):
    """A loader one of whose two reads hangs in the system until the end of the test."""
    begun, go, real = threading.Event(), threading.Event(), os.preadv
    others = set(threading.enumerate())  # of loaders that other tests left open

    def hang(fd: int, views: list[memoryview], offset: int) -> int:
        begun.set()
        assert go.wait(60)
        return real(fd, views, offset)

    monkeypatch.setattr(files_module.os, "preadv", hang)
    monkeypatch.setattr(loader_module, "SETTLE_SECONDS", 0.01)
    loader = Loader(store, 1)
    view = memoryview(mmap.mmap(-1, store.stride))
    reads = [loader.submit(GroupRead(0, group, 1, [view])) for group in range(2)]
    assert begun.wait(60)
    held = SimpleNamespace(loader=loader, reads=reads, go=go, others=others)
    del loader
    yield held
    go.set()
    _join_readers(others)


def _join_readers(others: set[threading.Thread]) -> None:
    for thread in set(threading.enumerate()) - others:
        if thread.name.startswith("estream-read"):
            thread.join(60)


def test_a_loader_that_is_left_open_leaves_no_threads_behind(store: Store) -> None:
    others = set(threading.enumerate())
    loader = Loader(store, 2)
    view = memoryview(mmap.mmap(-1, store.stride))
    loader.submit(GroupRead(0, 0, 1, [view])).result(60)
    mine = [t for t in set(threading.enumerate()) - others if t.name.startswith("estream-read")]
    assert mine
    del loader
    gc.collect()
    for thread in mine:
        thread.join(60)
    assert not any(thread.is_alive() for thread in mine)


def test_waiting_for_a_hung_read_ends_and_says_what_for(hung: Any) -> None:
    loader, reads = hung.loader, hung.reads
    with pytest.raises(EStreamError, match=r"gave up waiting for group 0 of layer 0 after 0.01 s: .* check the disk"):
        loader.wait(reads[0], "group 0 of layer 0", 0.01)
    loader.close()


def test_a_hung_read_holds_up_neither_settling_nor_closing(hung: Any) -> None:
    loader, reads = hung.loader, hung.reads
    with pytest.raises(EStreamError, match="did not end within 0.01 s: check the disk"):
        loader.settle(0.01)
    with pytest.raises(EStreamError, match="did not end"):
        loader.settle(1e9)  # what was waited for once is not waited for again
    assert reads[1].cancelled()
    fd = loader._file.fd
    loader.close()
    os.fstat(fd)  # still open for the read: its number must not come to mean another file


def test_the_file_of_a_hung_read_is_closed_when_that_ends(hung: Any) -> None:
    hung.loader.close()
    file = weakref.ref(hung.loader._file)
    del hung.loader
    assert file() is not None  # the read's own
    hung.go.set()
    _join_readers(hung.others)
    assert file() is None  # and with it its descriptor


def test_the_default_patience_covers_everything_outstanding(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def limit(bandwidth: float | None, nbytes: int) -> WaitLimit:
        asked.append((bandwidth, nbytes))
        return WaitLimit(60.0)

    loader, arena = Loader(store, 1, read_bandwidth=1e9), Arena(1, 3, store.stride)
    monkeypatch.setattr(loader_module, "WaitLimit", type("Limit", (), {"of": staticmethod(limit)}))
    go, real = threading.Event(), Loader._read

    def gated(self: Loader, read: GroupRead, asked_ns: int) -> tuple[int, int, int]:
        assert go.wait(60)
        return real(self, read, asked_ns)

    monkeypatch.setattr(Loader, "_read", gated)
    views = arena.bank_view(0, 3, store.stride)
    reads = [loader.submit(GroupRead(0, group, 3, views)) for group in range(3)]
    threading.Timer(0.0, go.set).start()
    assert loader.wait(reads[0], "group 0")[2] == 3 * store.stride
    assert asked[0] == (1e9, 9 * store.stride)
    for read in reads:
        read.result(60)
    assert loader._asked == 0 and loader.arrived_bytes == 9 * store.stride
    loader.close()


def test_bytes_are_counted_as_they_arrive(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a tiny bandwidth a group takes minutes, and the count is the only sign of life."""
    counts = []
    loader, arena = Loader(store, 1, read_bandwidth=4096 / 0.05), Arena(1, 2, store.stride)
    real = TokenBucket.take
    monkeypatch.setattr(TokenBucket, "take", lambda self, *of: counts.append(loader.arrived_bytes) or real(self, *of))
    loader.submit(GroupRead(0, 0, 2, arena.bank_view(0, 2, store.stride))).result(60)
    assert counts == list(range(0, 2 * store.stride, 4096))
    loader.close()


def test_verifying_waits_with_a_deadline(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    go, real = threading.Event(), os.preadv
    monkeypatch.setattr(files_module.os, "preadv", lambda *read: go.wait(60) and real(*read))
    monkeypatch.setattr(loader_module, "WaitLimit", type("Limit", (), {"of": staticmethod(lambda *_: WaitLimit(0.3))}))
    with pytest.raises(EStreamError, match=r"gave up waiting for record 0 of layer 0 in .*experts\.bin after 0.3 s"):
        verify_records(store)
    go.set()
    assert verify_records(store) == 30


@pytest.mark.parametrize(
    ("bandwidth", "size"), [(1.0, 4096), (1e5, 4096), (5e5, 24576), (3e6, SLICE_BYTES), (1e9, 4882 * 4096)]
)
def test_slices_are_pages_and_small_where_bandwidth_is(bandwidth: float, size: int) -> None:
    assert TokenBucket(bandwidth).slice_bytes == size


def test_a_declared_bandwidth_is_kept_on_a_virtual_clock() -> None:
    now = [10.0]
    bucket = TokenBucket(1000.0, clock=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    asked = now[0]
    for _ in range(5):
        bucket.take(200, asked)
    assert now[0] == pytest.approx(11.0)
    now[0] += 5.0  # idle time gives no credit: no burst
    asked = now[0]
    bucket.take(500, asked)
    assert now[0] == pytest.approx(16.5)
    now[0] += 0.2  # the waiting thread is late: the storage has gone on with what was asked of it
    bucket.take(500, asked)
    assert now[0] == pytest.approx(17.0)
    with pytest.raises(EStreamError, match="must be positive"):
        TokenBucket(0)


def test_the_declared_bandwidth_acts_on_a_real_read(store: Store) -> None:
    content, (start, end, count) = read_group(store, 0, 0, 10, read_bandwidth=2e6)
    assert content.tobytes() == store.experts_path.read_bytes()[: len(content)]
    assert end - start >= 0.99e9 * count / 2e6  # a token bucket only ever makes reads slower


def test_a_declared_storage_has_a_request_from_its_submission(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not from when the reading thread gets a processor, or, here, has ended another read."""
    go, real, asked = threading.Event(), os.preadv, []
    monkeypatch.setattr(files_module.os, "preadv", lambda *read: go.wait(60) and real(*read))
    monkeypatch.setattr(TokenBucket, "take", lambda self, count, at: asked.append(at))
    loader = Loader(store, 1, read_bandwidth=1e9)
    stride = store.layers[0].record.stride
    views = [memoryview(mmap.mmap(-1, stride)) for _ in range(2)]
    reads = [loader.submit(GroupRead(0, place, 1, [view])) for place, view in enumerate(views)]
    submitted = time.perf_counter()
    time.sleep(0.01)
    go.set()
    starts = [loader.wait(read, "a read")[0] for read in reads]
    loader.close()
    assert asked[0] <= asked[1] <= submitted and [at / 1e9 for at in starts] == asked


@pytest.mark.parametrize("settle", [True, False])
def test_a_read_that_waits_for_bandwidth_can_be_given_up(
    store: Store, monkeypatch: pytest.MonkeyPatch, settle: bool
) -> None:
    waits, real = threading.Event(), TokenBucket.take

    def take(self: TokenBucket, count: int, asked: float) -> None:
        waits.set()
        real(self, count, asked)

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
