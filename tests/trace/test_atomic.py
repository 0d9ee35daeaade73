import os
from collections.abc import Callable
from pathlib import Path

import pytest

from estream_lab.errors import EStreamError
from estream_lab.trace import check_writable, write_atomically


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result"
    write_atomically(path, b"old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(EStreamError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["result"]


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "result", b"new")
    assert os.listdir(tmp_path) == []


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match="nowhere"):
        write_atomically(tmp_path / "nowhere" / "result", b"")


def test_a_result_is_readable_as_any_new_file_is(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    write_atomically(tmp_path / "result", b"")
    assert (tmp_path / "result").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_never_replaced(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "there")
    before = (tmp_path / "there").stat()
    with pytest.raises(EStreamError, match="it is a folder or a device"):
        write_atomically(tmp_path / "there", b"")
    assert (tmp_path / "there").stat() == before and os.listdir(tmp_path) == ["there"]


def test_a_path_is_checked_without_touching_it(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    check_writable(tmp_path / "old")
    check_writable(tmp_path / "new")
    assert os.listdir(tmp_path) == ["old"] and (tmp_path / "old").read_bytes() == b"old"
    for path in (tmp_path, tmp_path / "nowhere" / "result", tmp_path / "old" / "result"):
        with pytest.raises(EStreamError, match="Cannot write"):
            check_writable(path)
