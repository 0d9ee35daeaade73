"""Choices on simulated devices: grids and seeds that are fixed, sweeps that are whole, and what summaries count."""

from dataclasses import replace

import pytest

from estream_lab.simulate import MODELS, Settings, load_device, simulate
from estream_lab.tuning import pairs
from estream_lab.tuning.pairs import (
    DEVELOPMENT_SEEDS,
    FAMILIES,
    REPORTED_SEEDS,
    TERMS,
    Case,
    Summary,
    case_of,
    drawn_cases,
    gate,
    summaries,
    sweep_size,
)
from estream_lab.tuning.regret import Regret

PHONE = load_device("phone")


@pytest.fixture(scope="module")
def case() -> Case:
    return case_of(PHONE, "lfm2")


def test_the_four_models_have_the_papers_configurations() -> None:
    assert [sweep_size([family]) for family in FAMILIES] == [25, 53, 53, 53]
    assert sweep_size() == 184


def test_no_seed_is_both_developed_by_and_reported_of() -> None:
    assert len(REPORTED_SEEDS) == 200 and not set(DEVELOPMENT_SEEDS) & set(REPORTED_SEEDS)
    assert {seed % len(FAMILIES) for seed in REPORTED_SEEDS} == set(range(4))


def test_a_case_is_every_configuration_simulated(case: Case) -> None:
    assert len(case.seconds) == 25
    for each in list(case.seconds)[::7]:
        found = simulate(PHONE, case.workload, Settings(each.group_size, each.banks, each.queue_depth))
        assert (case.seconds[each], case.peak_bytes[each]) == (found.seconds, found.peak_bytes)


def test_the_finer_model_chooses_the_fastest_and_both_keep_every_budget(case: Case) -> None:
    literal, shared = case.regrets("literal"), case.regrets("shared")
    assert [each.regret for each in shared] == [0, 0, 0]
    assert [each.feasible for each in shared] == [6, 13, 25]
    for each in (*literal, *shared):
        assert each.peak_rss_bytes <= each.budget_bytes and 0 <= each.regret <= gate()
    assert max(each.regret for each in literal) > 0.02  # a fourth bank, which the recurrence takes reads to be slow for


def test_noise_is_in_the_profile_and_never_in_the_sweep(case: Case) -> None:
    noisy = [case.regrets("literal", seed) for seed in range(5)]
    assert noisy == [case.regrets("literal", seed) for seed in range(5)]
    assert {each.fastest_seconds for found in noisy for each in found} == {
        each.fastest_seconds for each in case.regrets("literal")
    }


def test_drawn_cases_take_the_models_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {family: replace(MODELS[family], layers=1) for family in FAMILIES}
    monkeypatch.setattr(pairs, "SHAPES", few)
    told: list[int] = []
    found = dict(drawn_cases(PHONE, range(6, 10), swept=told.append))
    assert [case.workload.model.title for case in found.values()] == [
        few[family].title for family in ("deepseek", "qwen3", "lfm2", "olmoe")
    ]
    assert [case.device.name for case in found.values()] == ["phone-6", "phone-7", "phone-8", "phone-9"]
    assert [case.workload.origin[-7:-1] for case in found.values()] == ["seed 6", "seed 7", "seed 8", "seed 9"]
    assert sum(told) == 184


def test_summaries_count_choices_with_and_without_noise(case: Case) -> None:
    told: list[int] = []
    found = summaries("one", [((1, 2), case), ((3,), case)], told=told.append)
    assert [(each.model, each.noise, each.choices) for each in found] == [
        *((model.name, False, 6) for model in TERMS), ("literal", True, 9), ("shared", True, 9),
    ]  # fmt: skip
    assert sum(told) == 3 and len(summaries("one", [((), case)])) == len(TERMS)


def test_the_literal_models_misses_on_the_phone_are_its_reads_that_never_run_alone(case: Case) -> None:
    exact = {each.model: each.exact for each in summaries("one", [((), case)])}
    assert exact["literal"] == exact["literal, banks cost"] == exact["literal, depth searched"] < 3
    assert exact["literal, reads share"] == exact["shared"] == 3


def test_a_summary_is_of_the_regrets(case: Case) -> None:
    (some, *_) = case.regrets("literal")
    regrets: list[Regret] = [
        replace(some, regret=value, peak_rss_bytes=some.budget_bytes + more)
        for value, more in ((0.0, 0), (gate(), 1), (0.2, -1), (0.01, 0))
    ]
    expected = Summary("made up", True, "literal", 4, 1, 3, 3, (0.01 + gate()) / 2, 0.2)
    assert Summary.of("made up", True, regrets) == expected
    assert expected.to_json()["worst_regret"] == 0.2
