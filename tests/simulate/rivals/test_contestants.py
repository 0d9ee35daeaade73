"""Each contestant on a made-up device, worked out by hand; the contest and its refusals."""

from dataclasses import replace

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.routing import Routes
from estream_lab.simulate.device import load_device
from estream_lab.simulate.models import MODELS
from estream_lab.simulate.rivals import (
    ChunkPadding,
    Contest,
    Contestant,
    Contexts,
    EStream,
    HottestFirst,
    NpuMoe,
    OnDemand,
    Resident,
    WholeLayers,
    enter,
)
from estream_lab.simulate.rivals.contest import resampled
from estream_lab.simulate.rivals.contexts import by_setup
from estream_lab.simulate.rivals.hottest import hottest
from estream_lab.simulate.soc import Settings, simulate
from estream_lab.simulate.workload import Workload
from tests.simulate.devices import MODEL, device

from .contests import by_hand, given_routes

DENSE = 32 + 2 * 80
"""ns: what comes before the layers, and each of the two layers' non-expert work."""

OTHER = 25 + 24 + 1000
"""Bytes outside the arena."""

SETTINGS = Settings(2, 2, 1)


def test_estream_is_the_simulator() -> None:
    contest = by_hand()
    found = EStream(SETTINGS).run(contest)
    alone = simulate(contest.device, contest.workload, SETTINGS)
    assert (found.seconds, found.peak_bytes, found.bytes_read) == (alone.seconds, OTHER + 400, alone.bytes_read)
    assert (found.contestant, found.settings) == ("EStream early", "G=2 B=2 Q=1")
    assert EStream(replace(SETTINGS, carry_over=True), "roofline").name == "EStream early, carried over, roofline plan"


def test_expert_on_demand_by_hand() -> None:
    """Four of five experts, each read alone in 100 ns and run in 5 + 6·rows/12, 3 ns for the bank."""
    found = OnDemand().run(by_hand())
    assert found.seconds * 1e9 == pytest.approx(DENSE + 2 * (4 * (100 + 5) + 8 // 2 + 1 + 3), abs=4)
    assert (found.bytes_read, found.peak_bytes) == (2 * 400, OTHER + 100)


def test_contexts_by_hand() -> None:
    found = Contexts(setup_seconds=1e-6, copies=3).run(by_hand())
    assert found.seconds == pytest.approx(OnDemand().run(by_hand()).seconds + 8e-6)
    assert (found.bytes_read, found.peak_bytes) == (2 * 400, OTHER + 300)
    assert found.assumed == ("context set-up 0.001 ms", "3 copies of an expert")


def test_contexts_by_what_their_set_up_costs() -> None:
    free, dear = by_setup(by_hand(), [0, 2])
    assert (free.contestant, dear.contestant) == ("a context in 0 ms", "a context in 2 ms")
    assert dear.seconds - free.seconds == pytest.approx(2 * 4 * 2e-3)


def test_whole_layers_by_hand() -> None:
    """500 bytes at 2 bytes/ns from 32 on: one layer is there at 282, the next at 532, its dense work long done."""
    found = WholeLayers().run(by_hand(bank_synchronisation=0))
    assert found.seconds * 1e9 == pytest.approx(32 + 500 + 5 + 4)
    assert (found.bytes_read, found.peak_bytes) == (2 * 500, OTHER + 1000)
    lone = WholeLayers(pieces=1).run(by_hand(bank_synchronisation=0))
    assert lone.seconds * 1e9 == pytest.approx(32 + 1000 + 5 + 4)
    single = WholeLayers(buffers=1).run(by_hand(bank_synchronisation=0))
    assert single.seconds * 1e9 == pytest.approx(32 + 2 * (250 + 5 + 4))
    assert single.peak_bytes == OTHER + 500


def test_resident_by_hand() -> None:
    found = Resident().run(by_hand())
    assert found.seconds * 1e9 == pytest.approx(DENSE + 2 * (5 + 4))
    assert (found.bytes_read, found.preload_bytes, found.peak_bytes) == (0, 1000, OTHER + 1000)


def test_chunks_by_hand() -> None:
    """Loads 2, 0, 4, 1, 1 in chunks of 3 rows: 3, 0, 6, 3, 3; by two tokens: 2, 0, 4, 2, 2."""
    contest = by_hand()
    assert ChunkPadding(SETTINGS, rows=3).run(contest).rows.rows == 2 * 15
    assert ChunkPadding(SETTINGS, rows=2, per_prompt_chunk=True).run(contest).rows.rows == 2 * (2 + 4 + 2 + 2)
    slow = ChunkPadding(Settings(5, 1, 1, "on-demand"), rows=3).run(contest)
    exact = EStream(Settings(5, 1, 1, "on-demand")).run(contest)
    assert (slow.seconds - exact.seconds) * 1e9 == pytest.approx(2 * (15 - 8) * 0.5, abs=2)


def test_hottest_first_reads_what_is_popular_and_leaves_the_rest_together() -> None:
    """Loads 2, 0, 4, 1, 1 by popularity: 2, 0 | 3, 4 | 1, and the last group has no routes."""
    contest = by_hand()
    settings = Settings(2, 1, 1, "after-routing")
    assert HottestFirst(settings).run(contest).bytes_read == 2 * 400
    assert HottestFirst(settings, unit="group").run(contest).bytes_read == 2 * 500
    loads = np.array([2, 0, 4, 1, 1])
    assert hottest(loads, 1).tolist() == [2, 0, 3, 4, 1]
    assert hottest(loads, 2).tolist() == [2, 3, 0, 1, 4]


def test_every_outcome_says_that_it_is_simulated_and_how_sure_it_is() -> None:
    contest = Contest.synthetic(load_device("phone"), MODELS["olmoe"], 16, 1 << 40)
    settings = Settings(8, 3, 2)
    entered: list[Contestant] = [
        EStream(settings), OnDemand(), WholeLayers(), Resident(), Contexts(), ChunkPadding(settings), NpuMoe(),
        HottestFirst(settings),
    ]  # fmt: skip
    for contestant in entered:
        row = enter(contestant, contest).to_json()
        assert row["kind"] == "simulated (fitted profile, outside its scope OLMoE at 1,024 tokens, G=8)"
        assert row["over_budget"] is False and row["rows"]["routes"] == 16 * 16 * 8


def test_a_profile_covers_the_group_size_that_it_was_fitted_to() -> None:
    contest = Contest.synthetic(load_device("phone"), MODELS["olmoe"], 1024, 1 << 40)
    inside = EStream(Settings(8, 3, 2)).run(contest)
    assert inside.kind == "simulated (fitted profile, scope OLMoE at 1,024 tokens, G=8)"
    assert all("outside its scope" in other.run(contest).kind for other in (OnDemand(), Resident(), NpuMoe()))


def test_a_refusal_says_what_is_needed() -> None:
    assert enter(Resident(), by_hand(budget=2048)).to_json() == {
        "contestant": "all resident",
        "peak_bytes": OTHER + 1000,
        "refused": "all resident needs 2049 bytes of memory, 1 more than the budget of 2048: raise the budget, or ask "
        "for contestants over it",
    }
    assert enter(Resident(), by_hand(budget=2049)).to_json()["over_budget"] is False


def test_synthetic_contests_are_the_simulators_workloads_and_the_same_by_seed() -> None:
    made = [Contest.synthetic(device(), MODEL, 6, 1000, alpha=2.0, seed=seed) for seed in (3, 3, 4)]
    same = Workload.synthetic(MODEL, 6, alpha=2.0, seed=3)
    assert np.array_equal(made[0].workload.loads, same.loads) and made[0].workload.origin == same.origin
    first, again, other = ((each.norms.tobytes(), each.calibration.tobytes(), each.routes) for each in made)
    assert first == again
    assert all(one != another for one, another in zip(first, other, strict=True))
    fixed = [resampled(made[0].routes, 6, 5, seed=seed).tobytes() for seed in (3, 4)]
    assert fixed[0] == made[0].calibration.tobytes() != fixed[1]


def test_calibration_requests_are_drawn_from_the_requests_own_tokens() -> None:
    loads = resampled(tuple(given_routes().values()), 4, 5, prompts=200, seed=1)
    assert loads.shape == (200, 2, 5)
    assert (loads.sum(axis=2) == 8).all() and (loads[:, :, 1] == 0).all()
    assert loads.mean(axis=0)[0] == pytest.approx([2, 0, 4, 1, 1], abs=0.4)
    assert len(np.unique(loads[:, 0, 0])) > 2


def test_a_contest_is_calibrated_on_requests_like_others() -> None:
    one = dict.fromkeys(range(2), Routes.from_topk([[1], [1], [1]], np.ones((3, 1), np.float32)))
    changed = by_hand().calibrated(one)
    assert changed.calibration.shape == (16, 2, 5)
    assert (changed.calibration == np.array([0, 3, 0, 0, 0])).all() and changed.routes == by_hand().routes


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"budget_bytes": 0}, "a memory budget of 0 bytes"),
        ({"routes": ()}, "routes and its workload disagree"),
        ({"norms": np.ones((2, 3))}, "norms of shape"),
        ({"norms": -np.ones((2, 4))}, "norms of shape"),
        ({"calibration": np.zeros((0, 2, 5), np.int64)}, "calibration loads of shape"),
        ({"calibration": np.zeros((1, 2, 4), np.int64)}, "calibration loads of shape"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changed: dict[str, object], sentence: str) -> None:
    with pytest.raises(EStreamError, match=sentence):
        replace(by_hand(), **changed)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("contestant", "sentence"),
    [
        (WholeLayers(buffers=0), "0 buffers"),
        (WholeLayers(pieces=0), "0 pieces"),
        (Contexts(setup_seconds=-1.0), "contexts in -1 s"),
        (Contexts(copies=0), "0 copies"),
        (ChunkPadding(SETTINGS, rows=0), "chunks of 0 rows"),
        (HottestFirst(SETTINGS, unit="layer"), "can't sort by 'layer': choose expert or group"),  # type: ignore[arg-type]
    ],
)
def test_options_that_mean_nothing_are_refused(contestant: Contestant, sentence: str) -> None:
    with pytest.raises(EStreamError, match=sentence):
        contestant.run(by_hand())


def test_a_seed_below_zero_is_refused() -> None:
    with pytest.raises(EStreamError, match="seed of -1"):
        Contest.of_routes(device(), MODEL, given_routes(), 1000, "made up", -1)
