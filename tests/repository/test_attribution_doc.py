"""docs/attribution.md holds the tables that the recorded baseline gives."""

import json
import re
from pathlib import Path
from typing import Any

from estream_lab.evaluate.attribution import Attribution, Row
from estream_lab.evaluate.outliers import Scaled
from estream_lab.evaluate.regression import Computed
from estream_lab.evaluate.runs import Change
from tools.numerics_table import BASELINE, tables

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
