"""Regret: budgets fixed beforehand, choices held against what was measured, and how much of it is noise."""

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.tuning.calibration import Calibration, Execution, Loading
from estream_lab.tuning.configure import select
from estream_lab.tuning.grids import Configuration, configurations
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.regret import budgets, every_budget, noise_floor, regrets
from estream_lab.tuning.samples_file import SweepSample

from .profiles import profile

GRID = configurations(8, (2, 4), (1,))  # B of 2: 1 to 4; of 4: 1, 2


def made() -> Profile:
    """One layer of eight experts; reads hide behind nothing, so that more banks help."""
    runs = [
        Calibration(size, 1, 3, (0,), 0, tuple(Loading(0, k, 1000, 1000, 1000, 1.0) for k in range(8 // size)),
                    tuple(Execution(0, k, 10 * size) for k in range(8 // size)))
        for size in (2, 4)
    ]  # fmt: skip
    return profile(np.ones((1, 8), np.int64), runs, other_bytes=1000, record=10)


def samples(seconds: dict[Configuration, list[float]]) -> list[SweepSample]:
    return [
        SweepSample(number, *each, value, 500 + number, 0, 0.5, "same")
        for each, values in seconds.items()
        for number, value in enumerate(values)
    ]


def test_budgets_leave_five_configurations_all_and_what_is_half_way() -> None:
    low, medium, high = budgets(configurations(64), 7, 1000)
    sizes = sorted(b * g for _, b, g in configurations(64))
    assert low.bytes == 1000 + 7 * sizes[4] and len(low.feasible) >= 5
    assert len([size for size in sizes if 1000 + 7 * size <= low.bytes - 1]) < 5
    assert high.bytes == 1000 + 7 * 64 and high.feasible == configurations(64)
    assert medium.bytes == (low.bytes + high.bytes) // 2
    assert set(low.feasible) < set(medium.feasible) < set(high.feasible)
    few = budgets(GRID[:3], 7, 0)
    assert few[0].bytes == few[2].bytes == 7 * 6
    with pytest.raises(EStreamError, match="without configurations"):
        budgets((), 7, 0)


def test_from_every_budget_on_another_configuration_fits() -> None:
    found = every_budget(GRID, 7, 1000)
    assert [each.bytes for each in found] == [1000 + 7 * experts for experts in (2, 4, 6, 8)]
    assert [len(each.feasible) for each in found] == [1, 3, 4, 6]
    assert found[-1].feasible == budgets(GRID, 7, 1000)[-1].feasible


def test_the_regret_is_that_of_the_choice_among_what_fits() -> None:
    found = made()
    seconds = {each: [1.0 + i / 10] * 3 for i, each in enumerate(GRID)}
    told = regrets(found, samples(seconds))
    for each, budget in zip(told, budgets(GRID, 10, 1000), strict=True):
        chosen = select(found, budget.bytes).chosen
        assert each.chosen == (chosen.queue_depth, chosen.banks, chosen.group_size)
        assert each.fastest == GRID[0] and each.fastest_seconds == 1.0
        assert each.chosen_seconds == 1.0 + GRID.index(each.chosen) / 10
        assert each.regret == pytest.approx(each.chosen_seconds - 1) and each.peak_rss_bytes == 502
        assert (each.budget, each.budget_bytes, each.feasible) == (budget.name, budget.bytes, len(budget.feasible))
    assert max(each.regret for each in told) > 0
    assert told[0].to_json()["fastest"] == {"queue_depth": 1, "banks": 1, "group_size": 2}


def test_a_choice_that_was_not_measured_is_told() -> None:
    with pytest.raises(EStreamError, match=r"G=\d Q=1 B=\d was chosen and isn't in the sweep"):
        regrets(made(), samples({each: [1.0] for each in configurations(8, (1, 8), (1,))}))


def test_the_noise_floor_is_what_one_half_of_a_sweep_loses_against_the_other() -> None:
    seconds = {each: [2.0, 2.0] for each in GRID}
    seconds[GRID[0]] = [1.0, 1.5]  # the even rounds' choice; 25 % slower than the odd ones'
    seconds[GRID[1]] = [1.1, 1.2]
    floors = noise_floor(made(), samples(seconds))
    assert floors == pytest.approx(dict.fromkeys(("low", "medium", "high"), 0.25))
    assert noise_floor(made(), samples({each: [1.0] for each in GRID})) is None


def test_one_disturbed_sample_of_three_changes_nothing() -> None:
    seconds = {each: [1.0 + i / 10] * 3 for i, each in enumerate(GRID)}
    quiet = regrets(made(), samples(seconds))
    disturbed = {each: [values[0], 5.0, values[2]] for each, values in seconds.items()}
    assert regrets(made(), samples(disturbed)) == quiet
