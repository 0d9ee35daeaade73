"""Figures that left their baseline are named, three at most, and so are those that are new or gone."""

import json
from pathlib import Path

import pytest

from estream_lab.errors import EStreamError
from estream_lab.notebooks.baseline import hold, recorded


def test_figures_that_are_near_are_counted() -> None:
    assert hold({"a": 1.0, "b": "x"}, {"a": 1.5, "b": "x"}, lambda at: True) == 2


def test_each_drift_is_named() -> None:
    mine, theirs = {"a": 1.0, "b": 2.0, "new": 3.0}, {"a": 1.0, "b": 2.5, "gone": 4.0}
    with pytest.raises(
        EStreamError, match=r"^3 of 2 figures left .*: gone is gone; new is new; b is 2, its base.* 2\.5\."
    ):
        hold(mine, theirs, lambda at: at == "a")


def test_what_is_more_than_three_is_counted() -> None:
    mine = {name: 1.0 for name in "abcde"}
    with pytest.raises(EStreamError, match="^5 of 5 figures .*c is 1, its baseline 2 and 2 more"):
        hold(mine, {name: 2.0 for name in mine}, lambda at: False)


def test_a_baseline_that_is_not_there_is_told(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    with pytest.raises(EStreamError, match="holds no baseline 'fast'"):
        recorded(path, "fast")
    for content in ("{", json.dumps({"full": {}}), "[]"):
        path.write_text(content)
        with pytest.raises(EStreamError, match="holds no baseline 'fast'"):
            recorded(path, "fast")
    assert recorded(Path(__file__).parents[2] / "data" / "baselines" / "host_kernels.json", "fast")
