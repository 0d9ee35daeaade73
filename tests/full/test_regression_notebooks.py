"""The regression notebooks as a machine runs them: their figures stay within the committed baselines."""

import json
from pathlib import Path
from typing import Any

from estream_lab.evaluate.baseline import check, figures
from estream_lab.notebooks import run
from estream_lab.notebooks.baseline import hold
from tests.notebooks.lessons import NOTEBOOKS, figures_of

NOTEBOOK = NOTEBOOKS / "regression" / "numerics_attribution.ipynb"
KERNELS = NOTEBOOK.with_name("host_kernels.ipynb")
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


def test_host_kernels_are_within_their_baseline(tmp_path: Path) -> None:
    (result,) = run([KERNELS], {"fast": True, "threads": 1}, tmp_path).notebooks
    recorded = json.loads((BASELINE.parent / "host_kernels.json").read_text(encoding="utf-8"))["fast"]
    errors = result.records["errors"]
    assert hold(errors, recorded, lambda at: bool(abs(errors[at] / recorded[at] - 1) < 0.02)) == len(recorded)
    assert result.records["compared"] == len(recorded)
    assert result.records["peak"].keys() == {"int8", "bf16", "fp32", "read_bytes_per_second"}
    assert result.output_bytes < 200_000


def test_a_run_with_peers_is_drawn(tmp_path: Path) -> None:
    """Of another machine, with rows of others."""
    rows = [
        {"shape": "olmoe", "tokens": tokens, "implementation": name, "name": "q4_0", "quant": "q4_0",
         "arithmetic": "int8", "seconds_median": 0.5, "macs_per_second": 1e10, "macs_per_weight_byte": tokens / 5,
         "fraction_of_peak": 0.5}
        for name in ("estream", "ggml") for tokens in (32, 1024)
    ]  # fmt: skip
    peak = {"int8": 2e10, "fp32": 1e10, "read_bytes_per_second": 1e10}
    run_ = {"kind": "measured", "machine": "another", "threads": 8, "rounds": 5, "peak": peak, "rows": rows}
    (tmp_path / "run.json").write_text(json.dumps(run_))
    run([KERNELS], {"fast": True, "threads": 1, "bench_file": str(tmp_path / "run.json")}, tmp_path)
    first, _ = figures_of(tmp_path / KERNELS.name)
    assert {trace["name"] for trace in first["data"]} >= {"estream", "ggml"}
    assert "measured · another · 8 threads" in first["layout"]["title"]["subtitle"]["text"]
