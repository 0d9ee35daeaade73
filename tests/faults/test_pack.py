"""Faults while packing: one sentence that names the file, nothing half written, and the next run goes on."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from estream_lab.errors import EStreamError
from estream_lab.models import shard
from estream_lab.streaming import pack as module
from estream_lab.streaming.pack import pack
from tests.streaming.test_pack import files, write_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("pack") / "checkpoint")


WRITES = [("fsync", 1), ("fsync", 4), ("replace", 2), ("rename", 1), ("rename", 2)]


@pytest.fixture(scope="module")
def packed(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return files(pack(checkpoint, tmp_path_factory.mktemp("whole") / "m.estream", progress=False).path)


def failing(real: Callable[..., Any], nth: int, number: int) -> Callable[..., Any]:
    calls = 0

    def fail(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise OSError(number, os.strerror(number))
        return real(*arguments, **more)

    return fail


@pytest.mark.parametrize("nth", [10, 40, 75])
def test_a_checkpoint_that_cannot_be_read_is_named_and_finished_layers_are_kept(
    checkpoint: Path, packed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    output = checkpoint.parent / f"m{nth}.estream"  # beside what it is made from
    monkeypatch.setattr(shard.os, "pread", failing(os.pread, nth, errno.EIO))
    sentence = r"can't read .*model\.safetensors: Input/output error: check the disk, then run it again"
    with pytest.raises(EStreamError, match=sentence):
        pack(checkpoint, output, progress=False)
    monkeypatch.undo()
    assert not output.exists()
    result = pack(checkpoint, output, progress=False)
    assert result.resumed_layers == (0 if nth == 10 else result.resumed_layers) and files(output) == packed


@pytest.mark.parametrize(
    ("function", "nth"), [("fsync", 1), ("fsync", 4), ("replace", 2), ("rename", 1), ("rename", 2)]
)
def test_a_disk_that_fails_while_writing_is_named_and_the_next_run_goes_on(
    checkpoint: Path, packed: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, nth: int
) -> None:
    output = tmp_path / "m.estream"
    monkeypatch.setattr(module.os, function, failing(getattr(os, function), nth, errno.EIO))
    with pytest.raises(EStreamError, match=r"can't write .*m\.estream\.partial: Input/output error"):
        pack(checkpoint, output, progress=False)
    monkeypatch.undo()
    assert not (output / "manifest.json").exists()
    pack(checkpoint, output, progress=False)
    assert files(output) == packed and os.listdir(tmp_path) == ["m.estream"]
