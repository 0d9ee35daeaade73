"""All contestants on one contest, and the plans that EStream runs by."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.simulate import MODELS, load_device
from estream_lab.simulate.literal import literal
from estream_lab.simulate.rivals import ChunkPadding, Contest, Contexts, NpuMoe, Outcome
from estream_lab.simulate.soc import Settings, other_bytes, simulate
from estream_lab.tuning.compare import compare
from estream_lab.tuning.devices import device_candidates, device_depth
from estream_lab.tuning.grids import group_sizes
from estream_lab.tuning.plans import curves_of, plans_of
from tests.simulate.devices import MODEL, device

GIB = 2**30


@pytest.fixture(scope="module")
def contest() -> Contest:
    return Contest.synthetic(load_device("phone"), MODELS["olmoe"], 128, GIB)


def test_all_run_the_same_routes_within_the_budget_or_are_refused(contest: Contest) -> None:
    found = compare(contest)
    assert [entry.contestant for entry in found.entries] == [
        "EStream early", "EStream after-routing", "EStream on-demand", "EStream early, carried over",
        "EStream early, roofline plan", "hottest first", "chunk padding", "expert on demand", "QNN-switch",
        "whole layers", "NPUMoE-like", "all resident",
    ]  # fmt: skip
    assert [entry.contestant for entry in found.refused] == ["whole layers", "NPUMoE-like", "all resident"]
    assert all(outcome.peak_bytes <= GIB for outcome in found.outcomes)
    assert {outcome.rows.routes for outcome in found.outcomes} == {16 * 128 * 8}
    seconds = {outcome.contestant: outcome.seconds for outcome in found.outcomes}
    assert seconds["EStream early"] < seconds["EStream after-routing"] < seconds["EStream on-demand"]
    assert seconds["EStream early"] < seconds["EStream early, roofline plan"]


def test_those_over_the_budget_run_if_asked_and_say_so(contest: Contest) -> None:
    found = compare(contest, over_budget=True)
    assert not found.refused
    over = {outcome.contestant for outcome in found.outcomes if outcome.over_budget}
    assert over == {"whole layers", "NPUMoE-like", "all resident"}


def test_a_budget_for_nobody_refuses_all_and_names_the_least(contest: Contest) -> None:
    tight = replace(contest, budget_bytes=other_bytes(contest.device, contest.workload))
    found = compare(tight)
    assert not found.outcomes and {plan.predicted_seconds for plan in found.plans} == {None}
    least = tight.budget_bytes + contest.workload.model.expert_bytes
    assert min(refused.peak_bytes for refused in found.refused) == least
    assert found.refused[0].peak_bytes == tight.budget_bytes + 4 * contest.workload.model.expert_bytes


def test_outcomes_by_name(contest: Contest) -> None:
    found = compare(contest)
    early = found.named("QNN-switch", "EStream early")
    assert list(early) == ["QNN-switch", "EStream early"] and early["EStream early"] == found.outcomes[0]
    with pytest.raises(EStreamError, match="'all resident' didn't run: choose of EStream early"):
        found.named("all resident")


def test_curves_hold_what_planners_and_simulator_say_of_each_number_of_banks(contest: Contest) -> None:
    curves = curves_of(contest, 8)
    assert len(curves.maxplus) == len(curves.roofline) == len(curves.simulated) == 8
    bank = 8 * contest.workload.model.expert_bytes
    for banks, (maxplus, roofline, simulated) in enumerate(
        zip(curves.maxplus, curves.roofline, curves.simulated, strict=True), 1
    ):
        settings = Settings(8, banks, 2)
        assert maxplus == pytest.approx(literal(contest.device, contest.workload, settings)[0], abs=1e-8)
        assert roofline <= maxplus + 1e-9
        assert simulated == simulate(contest.device, contest.workload, settings).seconds
    assert curves.fits == min(8, (GIB - other_bytes(contest.device, contest.workload)) // bank)
    assert curves_of(replace(contest, budget_bytes=1), 8).fits == 0


def test_options_reach_their_contestants(contest: Contest) -> None:
    found = compare(
        contest,
        options={NpuMoe: {"quantile": 0.25}, Contexts: {"setup_seconds": 0.05}, ChunkPadding: {"rows": 7}},
        over_budget=True,
    )
    told = {outcome.contestant: outcome.settings for outcome in found.outcomes}
    assert told["NPUMoE-like"].startswith("p=0.25")
    assert told["QNN-switch"] == "50 ms a context" and told["chunk padding"].endswith("chunks of 7 rows")


def test_options_that_nobody_has_are_refused(contest: Contest) -> None:
    with pytest.raises(EStreamError, match="NpuMoe has no option 'percentile'"):
        compare(contest, options={NpuMoe: {"percentile": 0.5}})
    with pytest.raises(EStreamError, match="Outcome has no option 'seconds'"):
        compare(contest, options={Outcome: {"seconds": 0}})  # type: ignore[dict-item]


def test_the_summary_says_what_was_compared_and_what_is_assumed(contest: Contest) -> None:
    row = compare(contest).to_json()
    expected = {
        "kind": "simulated (fitted profile, outside its scope OLMoE at 1,024 tokens, G=8)", "device": "phone",
        "tokens": 128,
        "model": "OLMoE-1B-7B", "budget_bytes": GIB, "routes": "synthetic (alpha 3.5, seed 0)",
        "device_assumed": ["read_latency 0 ns", "group_overhead 0 ns"],
    }  # fmt: skip
    assert row | expected == row
    assert [plan["planner"] for plan in row["plans"]] == ["max-plus", "roofline"]
    assert row["contestants"][0]["over_budget"] is False and "refused" in row["contestants"][-1]


def test_a_plan_predicts_what_the_literal_recurrence_says(contest: Contest) -> None:
    maxplus, roofline = plans_of(contest)
    seconds, _ = literal(contest.device, contest.workload, maxplus.settings)
    assert maxplus.predicted_seconds == pytest.approx(seconds, abs=1e-8)
    assert roofline.predicted_seconds is not None and roofline.predicted_seconds < seconds
    depth = device_depth(contest.device)
    for candidate in device_candidates(contest.device, contest.workload, GIB):  # no configuration that fits is better
        for banks in range(1, candidate.banks + 1):
            other, _ = literal(contest.device, contest.workload, Settings(candidate.group_size, banks, depth))
            assert other >= seconds - 1e-8


def test_a_prediction_counts_what_lies_outside_the_pipeline() -> None:
    """Layers without experts come first, and banks are synchronised between layers."""
    made = Contest.synthetic(device(bank_synchronisation=50.0), MODEL, 6, 2000)
    plan, _ = plans_of(made)
    assert plan.predicted_seconds == pytest.approx(literal(made.device, made.workload, plan.settings)[0])


@given(st.integers(0, 140), st.integers(-1, 1))
def test_candidates_are_all_that_fit_the_budget(experts: int, more: int) -> None:
    phone, model = load_device("phone"), MODELS["qwen3"]
    asked = Contest.synthetic(phone, replace(model, layers=1), 8, GIB).workload
    other = other_bytes(phone, asked)
    budget = other + experts * model.expert_bytes + more
    found = device_candidates(phone, asked, budget)
    fit = [size for size in group_sizes(model.experts) if other + size * model.expert_bytes <= budget]
    assert [candidate.group_size for candidate in found] == fit
    for candidate in found:
        assert other + candidate.banks * candidate.bank_bytes <= budget
        full = candidate.banks == -(-model.experts // candidate.group_size)
        assert full or other + (candidate.banks + 1) * candidate.bank_bytes > budget


def test_the_depth_is_the_first_that_reaches_the_peak() -> None:
    assert device_depth(device(1e9, 1.94e9, 2e9)) == 2
    assert device_depth(device(1e9, 1.8e9, 2e9)) == 3
    assert device_depth(device(1e9)) == 1


def test_the_same_contest_gives_the_same_comparison(contest: Contest) -> None:
    again = Contest.synthetic(load_device("phone"), MODELS["olmoe"], 128, GIB)
    assert np.array_equal(again.calibration, contest.calibration)
    assert compare(again).to_json() == compare(contest).to_json()
