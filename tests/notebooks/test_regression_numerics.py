"""The numerics regression notebook's form, and that its baselines are of what it computes; `tests/full` runs it."""

import json
from typing import Any

import pytest

from estream_lab.evaluate.regression import FAST, FULL
from tests.notebooks.lessons import NOTEBOOKS, check_form

NOTEBOOK = NOTEBOOKS / "regression" / "numerics_attribution.ipynb"
BASELINE = NOTEBOOKS.parent / "data" / "baselines" / "numerics_attribution.json"
RECORDED: dict[str, Any] = json.loads(BASELINE.read_text(encoding="utf-8"))


def test_it_has_the_form_of_a_lesson() -> None:
    check_form(NOTEBOOK)


@pytest.mark.parametrize("size", ["fast", "full"])
def test_a_baseline_is_of_what_is_computed(size: str) -> None:
    wanted, recorded = {"fast": FAST, "full": FULL}[size], RECORDED[size]
    tokens = 2 * wanted.windows * wanted.length
    for attribution in (*recorded["routers"].values(), *recorded["orders"]):
        assert (attribution["model"], attribution["tokens"]) == ("tiny_moe", tokens)
    assert [each["top_k"] for each in recorded["orders"]] == list(wanted.top_k)
    assert [each["log2"] for each in recorded["outliers"]] == 2 * [*wanted.swiglu, *wanted.residual]
    assert {each["tokens"] for each in recorded["outliers"]} == {2 * wanted.outlier_windows * wanted.length}


def test_the_short_form_has_every_row_of_the_long_one() -> None:
    fast, full = RECORDED["fast"], RECORDED["full"]
    assert list(fast["layers"]) == list(full["layers"])
    for router, attribution in full["routers"].items():
        rows = [
            [(row["group"], row["name"]) for row in each["rows"]] for each in (attribution, fast["routers"][router])
        ]
        assert rows[0] == rows[1]
