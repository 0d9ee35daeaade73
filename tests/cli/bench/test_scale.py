"""estream bench scale: what stops it, it says before anything is packed."""

import os
from pathlib import Path

import pytest

from estream_lab.cli import main
from estream_lab.cli.bench import scale
from estream_lab.errors import EStreamError


def test_a_missing_control_group_is_said_before_anything_is_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise EStreamError("can't make a memory control group here (root may)")

    monkeypatch.setattr(scale, "run_in_group", refuse)
    monkeypatch.setattr(scale, "synthetic_store", lambda *_: pytest.fail("packed"))
    assert main(["bench", "scale", "--folder", str(tmp_path / "here")]) == 1
    assert "root may" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []
