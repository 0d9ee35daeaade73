import os
from collections.abc import Callable
from pathlib import Path

import pytest

from estream_lab.models.regular import read_regular


def test_a_plain_file_and_a_link_to_one_are_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").symlink_to("a")
    assert read_regular(tmp_path / "a") == read_regular(tmp_path / "b") == b"abc"


@pytest.mark.parametrize(
    ("make", "why"),
    [(os.mkfifo, "it is no regular file"), (os.mkdir, "it is a folder"), (lambda path: None, "No such file")],
)
def test_anything_else_is_refused_without_waiting(tmp_path: Path, make: Callable[[Path], None], why: str) -> None:
    make(tmp_path / "a")
    with pytest.raises(OSError, match=why):
        read_regular(tmp_path / "a")


def test_an_endless_device_is_refused() -> None:
    with pytest.raises(OSError, match="it is no regular file"):
        read_regular("/dev/zero")
