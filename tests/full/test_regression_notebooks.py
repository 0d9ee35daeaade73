"""The regression notebooks as a machine runs them: their figures stay within the committed baselines."""

import json
from pathlib import Path
from typing import Any

from estream_lab.evaluate.baseline import check, figures
from estream_lab.notebooks import run
from tests.notebooks.lessons import NOTEBOOKS

NOTEBOOK = NOTEBOOKS / "regression" / "numerics_attribution.ipynb"
BASELINE = NOTEBOOKS.parent / "data" / "baselines" / "numerics_attribution.json"
RECORDED: dict[str, Any] = json.loads(BASELINE.read_text(encoding="utf-8"))


def test_numerics_attribution_is_within_its_baseline(tmp_path: Path) -> None:
    (result,) = run([NOTEBOOK], {"fast": True}, tmp_path).notebooks
    records = result.records
    assert records["compared"] == len(figures(RECORDED["fast"]))
    recorded = {key: records[key] for key in ("rounding", "routers", "orders", "layers", "outliers")}
    assert check(recorded, BASELINE, "fast") == records["compared"]
    assert records["model"] == "tiny_moe"
    assert result.output_bytes < 200_000
