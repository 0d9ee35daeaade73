"""Packing onto a disk that really is full."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from estream_lab.errors import EStreamError
from estream_lab.models.synthetic import SyntheticSource
from estream_lab.streaming import Store, unfinished
from estream_lab.streaming.loader import verify_records
from estream_lab.streaming.pack import pack_synthetic
from tests.stores import SPEC


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB; SPEC's store takes about 340 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_leaves_no_store_and_can_be_resumed(small_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, output = SyntheticSource(SPEC), small_disk / "m.estream"
    with pytest.raises(EStreamError, match=r"bytes free and the store needs"):
        pack_synthetic(source, output, progress=False)
    assert os.listdir(small_disk) == []
    # another program takes the room after the check
    monkeypatch.setattr(unfinished, "check_space", lambda *_: None)
    with pytest.raises(EStreamError, match="no room left while writing"):
        pack_synthetic(source, output, progress=False)
    assert os.listdir(small_disk) == ["m.estream.partial"]
    subprocess.run(["mount", "-o", "remount,size=4m", small_disk], check=True)
    packed = pack_synthetic(source, output, progress=False)
    assert packed.resumed_layers > 0
    assert verify_records(Store(output)) == 30
