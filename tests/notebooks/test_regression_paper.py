"""The notebooks of the paper's figures have the form of lessons, and their baselines are of what is computed."""

import json
from pathlib import Path
from typing import Any

import pytest

from estream_lab.tuning.paper import Mark
from tests.notebooks.lessons import NOTEBOOKS, check_form
from tools import paper_baselines

NAMES = list(paper_baselines.COMPUTED)


def recorded(name: str) -> Any:
    return json.loads((paper_baselines.BASELINES / f"{name}.json").read_text(encoding="utf-8"))


def test_every_notebook_of_the_paper_has_a_baseline() -> None:
    assert sorted(NAMES) == sorted(path.stem for path in (NOTEBOOKS / "regression").glob("paper_*.ipynb"))


@pytest.mark.parametrize("name", NAMES)
def test_it_has_the_form_of_a_lesson(name: str) -> None:
    check_form(NOTEBOOKS / "regression" / f"{name}.ipynb")


@pytest.mark.parametrize("name", NAMES)
def test_baselines_say_of_every_figure_how_it_came_about(name: str) -> None:
    for size in ("fast", "full"):
        kinds = {place.split("/")[0] for place in recorded(name)[size]}
        assert "published" in kinds and kinds & {"simulated", "fitted"}
        assert ("measured" in kinds) is (name == "paper_fig2_routes")


@pytest.mark.parametrize("name", NAMES)
def test_the_short_form_is_part_of_the_long_one(name: str) -> None:
    fast, full = recorded(name)["fast"], recorded(name)["full"]
    same = {place: value for place, value in fast.items() if "models/" not in place}  # but a summary is of them all
    assert same.items() <= full.items()


def test_the_short_form_of_bubbles_is_what_is_computed() -> None:
    assert paper_baselines.recorded("paper_fig6_bubbles")["fast"] == recorded("paper_fig6_bubbles")["fast"]


def test_the_long_sweep_has_all_184_configurations() -> None:
    full = recorded("paper_fig10_configurations")["full"]
    ours = [place for place in full if place.split("/")[0] in ("simulated", "fitted")]
    assert sum("/latency/" in place for place in ours) == 184 == full["simulated/4 models/configurations/"]


def test_the_tool_records_what_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def marks(fast: bool) -> list[Mark]:
        return [Mark("a", "b", 1.0 if fast else 2.0, "s", kind) for kind in ("simulated", "measured")]

    monkeypatch.setattr(paper_baselines, "BASELINES", tmp_path)
    monkeypatch.setitem(paper_baselines.COMPUTED, "paper_scale", marks)
    monkeypatch.setattr("sys.argv", ["tool", "paper_scale"])
    paper_baselines.main()
    assert [path.name for path in tmp_path.iterdir()] == ["paper_scale.json"]
    assert recorded("paper_scale") == {"fast": {"simulated/a/b/": 1.0}, "full": {"simulated/a/b/": 2.0}}
    monkeypatch.setattr("sys.argv", ["tool", "paper_fig9"])
    with pytest.raises(SystemExit):
        paper_baselines.main()
