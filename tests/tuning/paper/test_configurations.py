"""Sweeps of a simulated device: every configuration once, the choices held against them, published values beside."""

import pytest

from estream_lab.simulate import MODELS, Settings, Workload, load_device, simulate
from estream_lab.tuning.grids import Configuration, configurations
from estream_lab.tuning.paper import configurations as paper
from estream_lab.tuning.paper.configurations import DEEPER, LATENCY, MEMORY, REGRET, SEARCH, Swept
from estream_lab.tuning.regret import budgets

PHONE = load_device("phone")


@pytest.fixture(scope="module")
def swept() -> dict[str, Swept]:
    return paper.sweep_device(PHONE, ("olmoe", "lfm2"))


def test_a_sweep_has_every_configuration_as_the_simulator_has_it(swept: dict[str, Swept]) -> None:
    lfm2 = swept["lfm2"]
    assert tuple(point.configuration for point in lfm2.points) == configurations(32)
    run = simulate(PHONE, Workload.synthetic(MODELS["lfm2"], 1024), Settings(8, 3, 2))
    point = lfm2.at(Configuration(2, 3, 8))
    assert (point.seconds, point.peak_bytes, point.kind) == (run.seconds, run.peak_bytes, "simulated")


def test_only_olmoes_groups_of_eight_are_fitted(swept: dict[str, Swept]) -> None:
    fitted = {point.configuration for point in swept["olmoe"].points if point.kind == "fitted"}
    assert fitted == {each for each in configurations(64) if each.group_size == 8}


def test_a_choice_fits_its_budget_and_is_held_against_the_fastest_that_does(swept: dict[str, Swept]) -> None:
    for sweep in swept.values():
        assert [choice.budget.name for choice in sweep.choices] == ["low", "medium", "high"]
        for choice in sweep.choices:
            fitting = [point for point in sweep.points if point.peak_bytes <= choice.budget.bytes]
            assert {point.configuration for point in fitting} == set(choice.budget.feasible)
            assert choice.chosen in fitting
            assert choice.fastest.seconds == min(point.seconds for point in fitting)
            assert choice.regret == choice.chosen.seconds / choice.fastest.seconds - 1 >= 0
            fixed = [point.seconds for point in fitting if point.configuration.group_size == 8]
            assert choice.fastest_of_fixed_group is not None and choice.fastest_of_fixed_group.seconds == min(fixed)


def test_budgets_are_those_of_the_regret_of_sweeps(swept: dict[str, Swept]) -> None:
    points = swept["lfm2"].points
    other = points[0].peak_bytes - points[0].configuration.banks * 4 * MODELS["lfm2"].expert_bytes
    wanted = budgets(configurations(32), MODELS["lfm2"].expert_bytes, other)
    assert tuple(choice.budget for choice in swept["lfm2"].choices) == wanted
    assert len(wanted[0].feasible) >= 5


def test_marks_are_of_every_point_and_choice(swept: dict[str, Swept]) -> None:
    found = paper.marks(swept)
    counts = {name: sum(mark.quantity == name for mark in found) for name in (LATENCY, MEMORY, REGRET, SEARCH, DEEPER)}
    assert counts == {LATENCY: 53 + 25 + 3, MEMORY: 53 + 25, REGRET: 6, SEARCH: 6, DEEPER: 2}
    chosen = swept["olmoe"].choices[0].chosen.configuration
    regret = next(mark for mark in found if mark.quantity == REGRET)
    assert (regret.of, regret.note) == ("OLMoE-1B-7B, low budget", chosen.told)
    beside = paper.beside_published(found)
    assert {mark.of for mark in beside} == {
        "OLMoE-1B-7B, G=8 Q=2 B=2", "OLMoE-1B-7B, G=8 Q=2 B=3", "OLMoE-1B-7B, G=8 Q=2 B=8", "OLMoE-1B-7B, G=8 B=3",
    }  # fmt: skip
    assert sorted(mark.kind for mark in beside) == ["fitted"] * 4 + ["published"] * 4


def test_fitted_points_are_near_the_published_ones(swept: dict[str, Swept]) -> None:
    beside = paper.beside_published(paper.marks(swept))
    for theirs in (mark for mark in beside if mark.kind == "published"):
        (ours,) = (mark for mark in beside if mark.of == theirs.of and mark.kind == "fitted")
        assert ours.value == pytest.approx(theirs.value, rel=0.03)


def test_the_search_is_published_for_two_pairs() -> None:
    (deepseek,) = paper.sweep_device(PHONE, ("deepseek",)).values()
    found = [mark for mark in paper.marks({"deepseek": deepseek}) if mark.quantity == SEARCH]
    assert [(mark.of, mark.value) for mark in found if mark.kind == "published"] == [
        ("DeepSeek-V2-Lite, medium budget", 4.8)
    ]
    medium = deepseek.choices[1]
    assert medium.fastest_of_fixed_group is not None
    ours = next(mark for mark in found if mark.of.endswith("medium budget"))
    assert ours.value == 100 * (1 - medium.fastest.seconds / medium.fastest_of_fixed_group.seconds)


def test_the_summary_counts_and_takes_the_worst(swept: dict[str, Swept]) -> None:
    ours = {mark.quantity: mark for mark in paper.summary(swept) if mark.kind == "simulated"}
    regrets = sorted(100 * choice.regret for sweep in swept.values() for choice in sweep.choices)
    assert ours["configurations"].value == 78
    assert (
        ours["exact choices"].value == sum(regret == 0 for regret in regrets) and ours["exact choices"].unit == "of 6"
    )
    assert ours["worst regret"].value == regrets[-1]
    assert ours["median regret"].value == (regrets[2] + regrets[3]) / 2
    theirs = {mark.quantity: mark.value for mark in paper.summary(swept) if mark.kind == "published"}
    assert theirs == {"configurations": 184, "exact choices": 9, "median regret": 0, "worst regret": 3.45}
