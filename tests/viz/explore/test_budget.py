"""The budget explorer: what it shows is what `select` says, for each profile, model and budget."""

import pytest

from estream_lab.simulate import OwnTimes
from estream_lab.tuning.configure import select
from estream_lab.viz.explore import BudgetExplorer
from estream_lab.viz.explore.budget import STEPS, budget
from estream_lab.viz.figures.theme import mebibytes
from tests.tuning.profiles import RECORD, calibration, profile, routes
from tests.viz.hand_made import same

FEW, MANY = routes(2, 8), routes(2, 16, seed=1)
PROFILES = {
    "few": profile(FEW, [calibration(FEW, size, depth, OwnTimes()) for size in (2, 4) for depth in (1, 2)]),
    "many": profile(MANY, [calibration(MANY, size, depth, OwnTimes()) for size in (1, 2, 4) for depth in (1, 2)]),
}


@pytest.fixture
def explorer() -> BudgetExplorer:
    return BudgetExplorer(PROFILES)


def test_the_slider_goes_from_one_bank_of_the_smallest_group_to_all_that_there_is() -> None:
    few = PROFILES["few"]
    assert budget(few, 0) == few.other_bytes + 2 * RECORD
    assert budget(few, STEPS) == few.other_bytes + 8 * RECORD
    assert budget(few, STEPS // 2) == few.other_bytes + 5 * RECORD


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("model", ["literal", "shared"])
@pytest.mark.parametrize("step", [0, 17, STEPS])
def test_it_shows_what_is_selected(explorer: BudgetExplorer, name: str, model: str, step: int) -> None:
    for control, value in (("profile", name), ("model", model), ("step", step)):
        explorer.controls[control].value = value
    found = select(PROFILES[name], explorer.budget(name), model)
    chosen = found.chosen
    assert explorer.budget(name) == budget(PROFILES[name], step) == found.budget_bytes
    assert f"G={chosen.group_size} B={chosen.banks} Q={chosen.queue_depth}</b>" in explorer.line.value
    assert {"memory": "memory binds", "groups": "number of groups binds", "service times": "service times bind"}[
        chosen.binds
    ] in explorer.line.value
    if found.runner_up is None:
        assert "No other group size fits" in explorer.line.value
    else:
        assert f"Runner-up: G={found.runner_up.group_size} B={found.runner_up.banks}" in explorer.line.value
    assert (
        f"{name} · {model} model · budget {mebibytes(found.budget_bytes)}" in explorer.figure.layout.title.subtitle.text
    )
    assert same(explorer)


def test_a_move_back_selects_nothing_anew(explorer: BudgetExplorer) -> None:
    explorer.controls["step"].value = 20
    before = explorer.selected.cache_info().misses
    explorer.controls["step"].value = 12
    explorer.controls["step"].value = 20
    assert explorer.selected.cache_info().misses == before
