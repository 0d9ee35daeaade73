"""The numerics regression notebook's form, and the gate that it ends with; `tests/full` runs it."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from estream_lab.errors import EStreamError
from estream_lab.evaluate.regression import FAST, FULL, check, figures
from tests.notebooks.lessons import NOTEBOOKS, check_form

NOTEBOOK = NOTEBOOKS / "regression" / "numerics_attribution.ipynb"
BASELINE = NOTEBOOKS.parent / "data" / "baselines" / "numerics_attribution.json"
RECORDED: dict[str, Any] = json.loads(BASELINE.read_text(encoding="utf-8"))


def test_it_has_the_form_of_a_lesson() -> None:
    check_form(NOTEBOOK)


def test_another_baseline_fails_it(tmp_path: Path) -> None:
    other = copy.deepcopy(RECORDED)
    other["fast"]["routers"]["renormalised"]["rows"][0]["layer_error"][0] *= 1.05
    path = tmp_path / "baseline.json"
    path.write_text(json.dumps(other))
    with pytest.raises(EStreamError, match="1 of .* renormalised/alone/Q4_0 weights/layer_error"):
        check(RECORDED["fast"], path, "fast")


@pytest.mark.parametrize("size", ["fast", "full"])
def test_a_baseline_holds_what_is_measured(size: str) -> None:
    wanted = {"fast": FAST, "full": FULL}[size]
    recorded = RECORDED[size]
    assert check(recorded, BASELINE, size) == len(figures(recorded))
    for attribution in recorded["routers"].values():
        assert attribution["tokens"] == 2 * wanted.windows * wanted.length
    assert [each["log2"] for each in recorded["outliers"]] == 2 * [*wanted.swiglu, *wanted.residual]


def fault(change: str) -> dict[str, Any]:
    """Recorded figures with one that moved."""
    found = copy.deepcopy(RECORDED["full"])
    row = next(r for r in found["routers"]["as trained"]["rows"] if r["name"] == "decode to fp16")
    if change == "flips":
        row["layer_flips"][2] += 2
    elif change == "bits":
        row["delta_bits_per_byte"] += 1e-4
    elif change == "divergence":
        row["divergence_bits"] *= 1.5
    elif change == "outlier":
        found["outliers"][-1]["perplexity_percent"]["the device"] += 1
    elif change == "gone":
        found["outliers"].pop()
    else:  # a switch that does nothing
        row["layer_error"] = [0.0 for _ in row["layer_error"]]
    return found


@pytest.mark.parametrize("change", ["flips", "bits", "divergence", "outlier", "gone", "no effect"])
def test_a_figure_that_moves_is_named(change: str) -> None:
    with pytest.raises(EStreamError, match="left their baseline: .*(decode to fp16|residual)"):
        check(fault(change), BASELINE, "full")


def test_a_near_tie_that_falls_otherwise_may_move_a_row_a_little() -> None:
    """Another processor adds up in another order: one flip in a layer, and what follows from it."""
    found = copy.deepcopy(RECORDED["full"])
    row = next(r for r in found["routers"]["as trained"]["rows"] if r["name"] == "decode to fp16")
    row["layer_flips"][2] += 1
    row["delta_bits_per_byte"] += 1e-4
    row["divergence_bits"] += 1e-4
    check(found, BASELINE, "full")
    row["divergence_bits"] += 1e-3
    with pytest.raises(EStreamError, match="1 of .*divergence_bits"):
        check(found, BASELINE, "full")


def test_a_missing_baseline_is_told(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match="holds no baseline 'fast'"):
        check(RECORDED["fast"], tmp_path / "none.json", "fast")
    with pytest.raises(EStreamError, match="holds no baseline 'slow'"):
        check(RECORDED["fast"], BASELINE, "slow")
