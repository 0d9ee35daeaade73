"""Faults while a store and an engine open: the right sentence before any work is done, never a hang."""

import errno
import fcntl
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.models import shard
from estream_lab.streaming import Store, dense_file
from estream_lab.streaming import files as files_module
from estream_lab.streaming import store as store_module
from estream_lab.streaming.plan import WaitLimit
from tests.faults.matrix import GROUP, LONG, Reference, no_hang

NO_TIME = WaitLimit(0.05)


@contextmanager
def file_gone(path: Path) -> Iterator[None]:
    kept = path.read_bytes()
    path.unlink()
    yield
    path.write_bytes(kept)


@contextmanager
def file_cut(path: Path) -> Iterator[None]:
    kept = path.read_bytes()
    path.write_bytes(kept[: len(kept) // 2])
    yield
    path.write_bytes(kept)


@contextmanager
def bit_flipped(path: Path) -> Iterator[None]:
    kept = path.read_bytes()
    path.write_bytes(kept[:-40] + bytes([kept[-40] ^ 1]) + kept[-39:])
    yield
    path.write_bytes(kept)


@contextmanager
def fails(owner: Any, function: str, number: int, path: Path) -> Iterator[None]:
    """The system answers with an error where ``path`` is concerned."""
    real = getattr(owner, function)

    def fail(*arguments: Any, **more: Any) -> Any:
        if _concerns(arguments[0], path):
            raise OSError(number, os.strerror(number))
        return real(*arguments, **more)

    with patch.object(owner, function, fail):
        yield


@contextmanager
def hangs(owner: Any, function: str, path: Path) -> Iterator[None]:
    """The system doesn't answer where ``path`` is concerned, and patience is short."""
    real, go = getattr(owner, function), threading.Event()

    def hang(*arguments: Any, **more: Any) -> Any:
        if _concerns(arguments[0], path):
            assert go.wait(60)
        return real(*arguments, **more)

    with ExitStack() as patches:
        patches.enter_context(patch.object(owner, function, hang))
        for module in (store_module, dense_file):
            patches.enter_context(patch.object(module, "NO_BYTES", NO_TIME))
        patches.enter_context(patch.object(WaitLimit, "of", classmethod(lambda cls, *_: cls(0.05))))
        yield
        go.set()
        for thread in threading.enumerate():
            if thread.name.startswith("estream-") and thread.daemon:
                thread.join(0.5)


def _concerns(target: Any, path: Path) -> bool:
    if isinstance(target, int):
        return os.path.samestat(os.fstat(target), os.stat(path))
    return getattr(target, "path", target) == path


MANIFEST, EXPERTS, DENSE = "manifest.json", "experts.bin", "dense.safetensors"
CASES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "manifest gone": (lambda s: file_gone(s / MANIFEST), "is not a store: it has no manifest.json"),
    "manifest cut off": (lambda s: file_cut(s / MANIFEST), "manifest.json is not valid JSON .*: pack the store again"),
    "manifest changed": (lambda s: bit_flipped(s / MANIFEST), "manifest.json .*: pack the store again"),
    "manifest EIO": (
        lambda s: fails(store_module, "read_regular", errno.EIO, s / MANIFEST),
        "can't read .*manifest.json: Input/output error",
    ),
    "manifest hung": (
        lambda s: hangs(store_module, "read_regular", s / MANIFEST),
        "gave up waiting for .*manifest.json after 0.05 s: storage doesn't answer, check the disk",
    ),
    "experts gone": (lambda s: file_gone(s / EXPERTS), "experts.bin can't be read .*: pack the store again"),
    "experts cut off": (lambda s: file_cut(s / EXPERTS), "experts.bin has .* bytes where the manifest says"),
    "experts EIO": (
        lambda s: fails(files_module.os, "open", errno.EIO, s / EXPERTS),
        "can't open .*experts.bin: Input/output error",
    ),
    "experts hung": (
        lambda s: hangs(files_module.os, "open", s / EXPERTS),
        "gave up waiting for opening .*experts.bin after 0.05 s",
    ),
    "dense gone": (lambda s: file_gone(s / DENSE), "dense.safetensors can't be read .*: pack the store again"),
    "dense cut off": (lambda s: file_cut(s / DENSE), "dense.safetensors has .* bytes where the manifest says"),
    "dense changed": (lambda s: bit_flipped(s / DENSE), "has a wrong checksum: pack the store again"),
    "dense EIO": (
        lambda s: fails(shard.os, "pread", errno.EIO, s / DENSE),
        "the opening of .*dense.safetensors failed: Input/output error: check the disk, or move the store",
    ),
    "dense hung": (
        lambda s: hangs(shard.os, "pread", s / DENSE),
        "gave up waiting for the opening of .*dense.safetensors after 0.05 s",
    ),
    "dense tensor EIO": (
        lambda s: fails(shard.Shard, "_fill", errno.EIO, s / DENSE),
        "reading '.*' of .*dense.safetensors failed: Input/output error: check the disk, or move the store",
    ),
    "dense tensor hung": (
        lambda s: hangs(shard.Shard, "_fill", s / DENSE),
        "gave up waiting for reading '.*' of .*dense.safetensors after 0.05 s",
    ),
}


@pytest.fixture
def store(reference: Reference, tmp_path: Path) -> Path:
    return Path(shutil.copytree(reference.store, tmp_path / "m.estream"))


def logits(store: Path) -> bytes:
    with PrefillEngine.open(store, group_size=GROUP, banks=2, poison=True) as engine:
        return engine.prefill(LONG, positions="all").output.tobytes()


@pytest.mark.parametrize("case", CASES)
def test_a_fault_while_opening_is_one_sentence_and_the_next_engine_works(
    store: Path, reference: Reference, case: str
) -> None:
    plant, sentence = CASES[case]
    with no_hang(case), plant(store), pytest.raises(EStreamError) as caught:
        logits(store)
    assert re.search(sentence, str(caught.value)) and "\n" not in str(caught.value), caught.value
    assert logits(store) == reference.logits[LONG]


def test_a_store_that_another_takes_the_place_of_is_noticed(store: Path, reference: Reference) -> None:
    """Between the store's opening and its records': same size, other bytes."""
    opened = Store(store)
    (store / EXPERTS).write_bytes(bytes(opened.experts_bytes))
    with PrefillEngine.open(opened, group_size=GROUP) as engine, pytest.raises(EStreamError, match="wrong checksum"):
        engine.prefill(LONG)


@pytest.mark.parametrize("resident", [False, True])
def test_without_direct_io_the_result_is_the_same_and_says_why(
    store: Path, reference: Reference, resident: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(files_module.os, "open", refuse)
    with PrefillEngine.open(store, group_size=GROUP, resident=resident) as engine:
        result = engine.prefill(LONG, positions="all")
    assert result.output.tobytes() == reference.logits[LONG]
    assert not result.direct_io and result.fallback_reason == "no direct I/O here: Invalid argument"


def test_direct_reads_that_fail_are_told_in_the_result(
    store: Path, reference: Reference, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.preadv

    def refuse(fd: int, *rest: Any) -> int:
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(fd, *rest)

    monkeypatch.setattr(files_module.os, "preadv", refuse)
    with PrefillEngine.open(store, group_size=GROUP, banks=2) as engine:
        result = engine.prefill(LONG, positions="all")
    assert result.output.tobytes() == reference.logits[LONG]
    assert not result.direct_io and result.fallback_reason == "direct reads fail here: Invalid argument"
