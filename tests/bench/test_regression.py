"""The regression of kernels holds errors, and no times."""

import json
from pathlib import Path
from typing import Any

import pytest

from estream_lab.bench import regression
from estream_lab.bench.inputs import KINDS
from estream_lab.bench.ours import LANES
from estream_lab.bench.regression import Size, check, figures, measure, read
from estream_lab.bench.shapes import LayerShape
from estream_lab.errors import EStreamError
from estream_lab.kernels.host import thread_limit

TINY = Size((LayerShape("tiny", 64, 32, 4, 2, 3.0),), (3, 9), 1)


@pytest.fixture(name="found", scope="module")
def _found() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regression, "peaks", lambda threads: {"int8": 1e9, "read_bytes_per_second": 1e9})
        return measure(TINY, threads=1)


def test_every_row_has_two_errors_of_each_kind(found: dict[str, Any]) -> None:
    mine = figures(found)
    assert len(mine) == 2 * len(LANES) * 2 * len(KINDS)
    first = found["rows"][0]
    assert mine["tiny, 3 tokens/host int8/lognormal/token_errors"] == first["token_errors"]["lognormal"]


def test_peers_are_held_to_nothing(found: dict[str, Any]) -> None:
    peer = found["rows"][0] | {"implementation": "ggml"}
    assert figures({"rows": [*found["rows"], peer]}) == figures(found)


def test_errors_are_those_of_every_run_with_any_threads(found: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression, "peaks", lambda threads: {})
    again = measure(TINY, threads=min(2, thread_limit()))
    assert figures(again) == figures(found)


@pytest.mark.parametrize(("factor", "drifts"), [(1.01, False), (0.99, False), (1.03, True), (0.97, True)])
def test_an_error_may_drift_by_its_tolerance(
    found: dict[str, Any], tmp_path: Path, factor: float, drifts: bool
) -> None:
    at = "tiny, 9 tokens/host int8/gaussian/relative_errors"
    baseline = tmp_path / "baseline.json"
    theirs = figures(found)
    baseline.write_text(json.dumps({"full": theirs | {at: float(theirs[at]) * factor}}))
    if drifts:
        with pytest.raises(EStreamError, match=f"1 of {len(theirs)} figures left their baseline: {at}"):
            check(found, baseline, "full")
    else:
        assert check(found, baseline, "full") == len(theirs)


def test_a_run_is_read_from_its_file(found: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(found))
    assert read(path) == found


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"rows": [], "peak": {}}', '{"rows": [{}], "peak": {}}'])
def test_what_is_no_run_is_told(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(EStreamError, match=r"run\.json is no result of `estream bench kernels -o FILE\.json`"):
        read(path)
