"""docs/attribution.md holds the tables that the recorded baseline gives."""

import copy
import json
import re
from pathlib import Path
from typing import Any

from estream_lab.evaluate.attribution import Attribution, Row
from estream_lab.evaluate.outliers import Scaled
from estream_lab.evaluate.regression import Computed
from estream_lab.evaluate.runs import Change
from tools.numerics_table import BASELINE, comparison, tables

DOC = Path(__file__).parents[2] / "docs" / "attribution.md"


def frozen(values: dict[str, Any]) -> dict[str, Any]:
    """JSON's lists as tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def attribution(found: dict[str, Any]) -> Attribution:
    return Attribution(**{**found, "rows": tuple(Row(**frozen(row)) for row in found["rows"])})


def scaled(found: dict[str, Any]) -> Scaled:
    return Scaled(**{**found, "steps": {name: Change(**frozen(each)) for name, each in found["steps"].items()}})


def recorded() -> Computed:
    full: dict[str, Any] = json.loads(BASELINE.read_text(encoding="utf-8"))["full"]
    return Computed(
        rounding=full["rounding"],
        routers={name: attribution(found) for name, found in full["routers"].items()},
        orders=tuple(map(attribution, full["orders"])),
        layers={name: tuple(Change(**frozen(each)) for each in found) for name, found in full["layers"].items()},
        outliers=tuple(map(scaled, full["outliers"])),
    )


def test_the_page_shows_what_the_tool_prints() -> None:
    text = DOC.read_text(encoding="utf-8")
    (shown,) = re.findall(r"<!-- numerics_table -->\n\n(.*?)\n\n<!-- end of numerics_table -->", text, re.DOTALL)
    assert shown == "\n".join(tables(recorded()))


def test_what_the_page_says_of_them_holds() -> None:
    text, found = DOC.read_text(encoding="utf-8"), recorded()
    for each in (*found.routers.values(), *found.orders):
        for row in each.rows:
            assert abs(row.delta_bits_per_byte) < 2 * row.standard_error or row.standard_error == 0
    for changes in found.layers.values():
        assert changes[3] == max(changes, key=lambda change: change.divergence_bits)
        assert changes[3].logits_error == max(change.logits_error for change in changes)
    (scale,) = (each for each in found.outliers if (each.what, each.log2, each.renormalise) == ("swiglu", 14, False))
    stored = scale.steps["results stored as fp16"]
    assert f"{sum(stored.layer_flips)} of {sum(stored.layer_flips) / stored.flip_share:.0f} routes flip" in text


def test_a_comparison_has_the_largest_change_of_each_kind() -> None:
    recorded = json.loads(BASELINE.read_text(encoding="utf-8"))["fast"]
    found = copy.deepcopy(recorded) | {"rounding": "another"}
    rows = {row["name"]: row for row in found["routers"]["as trained"]["rows"]}
    rows["SiLU table"]["delta_bits_per_byte"] *= -3
    rows["fp32 scatter"]["delta_bits_per_byte"] *= 2
    rows["accumulator ieee_fp32"]["layer_error"][2] *= 1.5
    lines = comparison(found, recorded)
    assert lines[0] == f"Functions round as another, the baseline's as {recorded['rounding']}."
    cells = {kind: rest for kind, *rest in (line.strip("| ").split(" | ") for line in lines[4:])}
    turned, grown = (
        4 * abs(rows["SiLU table"]["delta_bits_per_byte"]) / 3,
        rows["accumulator ieee_fp32"]["layer_error"][2] / 3,
    )
    assert cells["delta_bits_per_byte"][1:] == ["2", f"{turned:.1e}", "4.0e+00", "1"]
    assert cells["layer_error of accumulators"] == ["48", "1", f"{grown:.1e}", "5.0e-01", "0"]
    assert {
        cell[1] for kind, cell in cells.items() if kind not in ("delta_bits_per_byte", "layer_error of accumulators")
    } == {"0"}
