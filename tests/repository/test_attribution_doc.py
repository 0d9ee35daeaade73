"""docs/attribution.md holds the tables that the recorded baseline gives."""

import json
import re
from pathlib import Path
from typing import Any

from estream_lab.evaluate.attribution import Attribution, Row
from estream_lab.evaluate.outliers import Scaled
from estream_lab.evaluate.regression import Measured
from tools.numerics_table import BASELINE, tables

DOC = Path(__file__).parents[2] / "docs" / "attribution.md"


def recorded() -> Measured:
    full: dict[str, Any] = json.loads(BASELINE.read_text(encoding="utf-8"))["full"]
    routers = {}
    for name, found in full["routers"].items():
        rows = tuple(
            Row(**{k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}) for row in found["rows"]
        )
        routers[name] = Attribution(**{**found, "rows": rows})
    return Measured(routers, tuple(Scaled(**each) for each in full["outliers"]))


def test_the_page_shows_what_the_tool_prints() -> None:
    text = DOC.read_text(encoding="utf-8")
    (shown,) = re.findall(r"<!-- numerics_table -->\n\n(.*?)\n\n<!-- end of numerics_table -->", text, re.DOTALL)
    assert shown == "\n".join(tables(recorded()))
