"""The notebooks of the paper's figures as a machine runs them: within their baselines, and failing outside of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from estream_lab.errors import EStreamError
from estream_lab.notebooks import run
from estream_lab.tuning.paper import KINDS
from tests.notebooks.lessons import NOTEBOOKS, figures_of

BASELINES = NOTEBOOKS.parent / "data" / "baselines"
FIGURES = {
    "paper_fig2_routes": 4, "paper_fig6_bubbles": 4, "paper_fig10_configurations": 5, "paper_scale": 4,
    "paper_lengths": 2,
}  # fmt: skip


def recorded(name: str) -> dict[str, float]:
    found: dict[str, float] = json.loads((BASELINES / f"{name}.json").read_text(encoding="utf-8"))["fast"]
    return found


@pytest.fixture(scope="module", params=FIGURES)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any], Path]:
    """A notebook's name, what it records in its fast form, and the executed one."""
    folder = tmp_path_factory.mktemp("paper")
    (result,) = run([NOTEBOOKS / "regression" / f"{request.param}.ipynb"], {"fast": True}, folder).notebooks
    assert result.output_bytes < 200_000
    return request.param, result.records, folder / f"{request.param}.ipynb"


def test_figures_are_their_baseline(ran: tuple[str, dict[str, Any], Path]) -> None:
    name, records, _ = ran
    wanted = recorded(name)
    assert records["compared"] == len(wanted) and records["figures"].keys() == wanted.keys()
    exact = {place: value for place, value in wanted.items() if not place.startswith("measured/")}
    assert exact.items() <= records["figures"].items()
    assert records["kinds"] == KINDS


def test_every_figure_is_drawn_and_says_where_it_is_from(ran: tuple[str, dict[str, Any], Path]) -> None:
    name, _, executed = ran
    drawn = figures_of(executed)
    assert len(drawn) == FIGURES[name]
    assert all(figure["layout"]["title"]["subtitle"]["text"] for figure in drawn)


@pytest.mark.parametrize("ran", ["paper_fig6_bubbles"], indirect=True)
def test_measured_storage_stands_still_for_longer_on_demand_than_early(ran: tuple[str, dict[str, Any], Path]) -> None:
    """On demand nothing is read while anything is computed; early, reads and work go on together."""
    rates = ran[1]["measured"]
    assert len(rates) == 6 and all(0 <= rate < 100 for rate in rates.values())
    on_demand, early = (rates[f"measured/tiny_moe, {name}/storage idle/"] for name in ("on-demand", "early"))
    assert on_demand > early


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_that_moved_fails_its_notebook(name: str, tmp_path: Path) -> None:
    fast = recorded(name)
    place = next(place for place in fast if place.startswith(("simulated/", "fitted/")))
    moved = tmp_path / "moved.json"
    moved.write_text(json.dumps({"fast": {**fast, place: fast[place] + 0.001}}))
    with pytest.raises(EStreamError, match=rf"1 of {len(fast)} figures left their baseline: "):
        run([NOTEBOOKS / "regression" / f"{name}.ipynb"], {"fast": True, "baseline": str(moved)}, tmp_path / "out")
