"""The kernels' regression notebook has the form of a lesson, and its baselines are of what it computes."""

import json
from pathlib import Path
from typing import Any

import pytest

from estream_lab.bench.inputs import KINDS
from estream_lab.bench.ours import LANES
from estream_lab.bench.regression import FAST, FULL
from tests.notebooks.lessons import NOTEBOOKS, check_form
from tools import kernel_baseline

RECORDED: dict[str, Any] = json.loads(kernel_baseline.BASELINE.read_text(encoding="utf-8"))


def test_it_has_the_form_of_a_lesson() -> None:
    check_form(NOTEBOOKS / "regression" / "host_kernels.ipynb")


@pytest.mark.parametrize("size", ["fast", "full"])
def test_a_baseline_is_of_what_is_computed(size: str) -> None:
    wanted = {"fast": FAST, "full": FULL}[size]
    assert set(RECORDED[size]) == {
        f"{shape.name}, {tokens} tokens/{lane.name}/{kind}/{what}"
        for shape in wanted.shapes
        for tokens in wanted.tokens
        for lane in LANES
        for kind in KINDS
        for what in ("relative_errors", "token_errors")
    }


def test_the_tool_records_both_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[object] = []

    def measure(size: object, *, threads: int) -> dict[str, Any]:
        measured.append(size)
        errors = {"gaussian": len(measured) / 8}
        row = {"shape": "s", "tokens": 1, "name": "n", "implementation": "estream"}
        return {"rows": [row | {"relative_errors": errors, "token_errors": {}}]}

    monkeypatch.setattr(kernel_baseline, "BASELINE", tmp_path / "kernels.json")
    monkeypatch.setattr(kernel_baseline, "measure", measure)
    kernel_baseline.main()
    at = "s, 1 tokens/n/gaussian/relative_errors"
    assert json.loads((tmp_path / "kernels.json").read_text()) == {"fast": {at: 0.125}, "full": {at: 0.25}}
    assert measured == [FAST, FULL]
