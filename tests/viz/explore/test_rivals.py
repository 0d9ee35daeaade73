"""The rivals explorer: every control reaches its contestants, and only what changes is simulated again."""

import pytest

from estream_lab.simulate import MODELS, load_device
from estream_lab.simulate.rivals import Contest, Contexts, OnDemand
from estream_lab.tuning.compare import compare
from estream_lab.viz.explore import RivalExplorer
from tests.viz.hand_made import same


@pytest.fixture
def explorer() -> RivalExplorer:
    return RivalExplorer(Contest.synthetic(load_device("phone"), MODELS["olmoe"], 256, 1 << 30))


def names(explorer: RivalExplorer) -> list[str]:
    return [str(note.text) for note in explorer.figure.layout.annotations]


def test_it_shows_what_the_comparison_says(explorer: RivalExplorer) -> None:
    found = compare(explorer.contest, over_budget=True)
    best = min((each for each in found.outcomes if not each.over_budget), key=lambda each: each.seconds)
    assert f"{best.contestant} is the fastest: {best.seconds:.3f} s" in explorer.last.text
    assert "3 of 12 are over the budget" in explorer.last.text
    assert len([name for name in names(explorer) if name.endswith(" s</b>")]) == 12
    assert same(explorer)


@pytest.mark.parametrize(
    ("control", "value", "contestant"),
    [("setup_ms", 0.5, "QNN-switch"), ("chunk", 512, "chunk padding"), ("quantile", 0.0, "NPUMoE-like")],
)
def test_a_control_changes_its_contestant_alone(
    explorer: RivalExplorer, control: str, value: float, contestant: str
) -> None:
    before, ran = set(names(explorer)), len(explorer.ran)
    explorer.controls[control].value = value
    assert {name.split(" <b>")[0] for name in before ^ set(names(explorer))} == {contestant}
    assert len(explorer.ran) == ran + 1
    assert f"{value:g}" in explorer.last.settings
    assert same(explorer)


def test_values_are_in_the_units_that_they_say(explorer: RivalExplorer) -> None:
    explorer.controls["setup_ms"].value = 0.5
    assert Contexts(setup_seconds=0.0005) in explorer.ran


def test_nobody_is_simulated_twice(explorer: RivalExplorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(OnDemand, "run")
    explorer.controls["chunk"].value = 64
    assert "chunks of 64 rows" in explorer.last.settings


def test_the_budget_moves_the_line_and_the_plans(explorer: RivalExplorer) -> None:
    explorer.controls["budget_mib"].value = 8192
    assert "budget 8.00 GiB" in names(explorer) and "0 of 12 are over the budget" in explorer.last.text
    assert "all resident is the fastest" in explorer.last.text
    explorer.controls["budget_mib"].value = 800
    assert "all resident" not in explorer.last.text
    assert same(explorer)


def test_a_budget_for_nobody_says_so() -> None:
    tight = RivalExplorer(Contest.synthetic(load_device("phone"), MODELS["olmoe"], 8, 100 << 20))
    assert tight.last.text == "none fits 100.0 MiB"
