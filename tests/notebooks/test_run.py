import json
import sys
from pathlib import Path

import nbformat
import pytest

from estream_lab.errors import EStreamError
from estream_lab.notebooks import record, run

from .make import write

LESSON = """import os, sys
import numpy as np
from estream_lab.notebooks import record
record("python", sys.executable)
record("folder", os.getcwd())
record("given", [tokens, fast, share, prompt])
record("numpy", np.float32(0.5))"""


def test_a_lesson_runs_in_this_python_in_its_folder_with_typed_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "jupyter" / "kernels" / "python3"  # a user's own kernel specification must not be taken
    foreign.mkdir(parents=True)
    (foreign / "kernel.json").write_text(
        json.dumps({"argv": ["/bin/false"], "display_name": "x", "language": "python"})
    )
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    home = tmp_path / "{braces}"
    home.mkdir()
    path = write(home / "lesson.ipynb", LESSON)
    before = path.read_bytes()

    report = run([path], {"fast": "true", "share": 2}, tmp_path / "out")

    (result,) = report.to_json()["notebooks"]
    assert list(result) == ["name", "status", "seconds", "output_bytes", "records"]
    assert (result["name"], result["status"]) == ("lesson", "ok")
    assert result["records"] == {
        "python": sys.executable,
        "folder": str(home),
        "given": [8, True, 2.0, "a"],
        "numpy": 0.5,
    }
    written = tmp_path / "out" / "lesson.ipynb"
    assert result["output_bytes"] == written.stat().st_size
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["lesson.ipynb"]
    assert path.read_bytes() == before
    nbformat.validate(nbformat.read(written, as_version=4))
    json.dumps(report.to_json())


def test_live_widgets_leave_no_state(tmp_path: Path) -> None:
    path = write(tmp_path / "lesson.ipynb", "from ipywidgets import IntSlider\nIntSlider()", parameters=None)
    report = run([path], out_dir=tmp_path / "out")
    text = (tmp_path / "out" / "lesson.ipynb").read_text()
    assert "IntSlider(value=0)" in text
    assert "widget-view" not in text
    assert "widget-state" not in text
    assert report.notebooks[0].output_bytes < 5_000


def test_a_failed_cell_is_told_by_its_number_in_the_lesson_and_its_line(tmp_path: Path) -> None:
    first = write(tmp_path / "broken.ipynb", "a = 0", "b = 2\nb / a\n")
    last = write(tmp_path / "quits.ipynb", "import sys\nsys.exit()", "never = 1")
    with pytest.raises(
        EStreamError, match=r"^broken.ipynb, cell 4, line 2 \(`b / a`\): ZeroDivisionError: division by zero. See"
    ):
        run([first, last], {"fast": True}, tmp_path / "out")
    assert "ZeroDivisionError" in (tmp_path / "out" / "broken.ipynb").read_text()
    assert not (tmp_path / "out" / "quits.ipynb").exists()

    report = run([first, last], {"fast": True}, tmp_path / "out", keep_going=True)
    assert [(item.name, item.status) for item in report.notebooks] == [("broken", "failed"), ("quits", "failed")]
    assert report.notebooks[1].error is not None
    assert "stopped before cell 4" in report.notebooks[1].error
    assert "error" in report.to_json()["notebooks"][0]


def test_a_dead_kernel_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "dies.ipynb", "import os\nos._exit(1)")
    with pytest.raises(EStreamError, match=r"dies\.ipynb: its kernel died"):
        run([path], out_dir=tmp_path / "out")


def test_nothing_runs_where_one_lesson_refuses_the_parameters(tmp_path: Path) -> None:
    good = write(tmp_path / "good.ipynb", "1")
    other = write(tmp_path / "other.ipynb", "1", parameters=None)
    with pytest.raises(EStreamError, match=r"other.ipynb has no parameter fast"):
        run([good, other], {"fast": True}, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_is_no_notebook_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "text.ipynb").write_text("hello")
    (tmp_path / "empty.ipynb").write_text("{}")
    for name in ("text.ipynb", "empty.ipynb", "absent.ipynb"):
        with pytest.raises(EStreamError, match=name):
            run([tmp_path / name], out_dir=tmp_path / "out")
    (tmp_path / "a").mkdir()
    twins = [write(tmp_path / "a" / "x.ipynb"), write(tmp_path / "x.ipynb")]
    with pytest.raises(EStreamError, match="Two notebooks are named x"):
        run(twins, out_dir=tmp_path / "out")


@pytest.mark.parametrize("value", [float("nan"), object(), {"a": float("inf")}])
def test_what_json_cannot_carry_is_not_recorded(value: object) -> None:
    with pytest.raises(EStreamError, match="Cannot record idle"):
        record("idle", value)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "5", "null", "{}", "[" * 100_000, '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": 5}',
     '{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [5]}'],
)  # fmt: skip
def test_a_file_that_is_no_notebook_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "x.ipynb").write_text(content)
    with pytest.raises(EStreamError, match=r"x\.ipynb is not a notebook"):
        run([tmp_path / "x.ipynb"], out_dir=tmp_path / "out")
    assert not (tmp_path / "out").exists()
