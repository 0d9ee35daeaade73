"""The NPUMoE-like contestant: its tiers, what it drops, and where its groups run."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.routing import Routes
from estream_lab.simulate.rivals import Contest, NpuMoe
from estream_lab.simulate.rivals.npumoe import by_quantile
from estream_lab.simulate.rivals.tiers import groups_of, kept_routes, tiers_of

from .contests import by_hand, contests, npumoe

QUANTILES = st.floats(0, 1)


@given(contests(), npumoe(), QUANTILES, QUANTILES)
def test_a_larger_quantile_never_drops_more(contest: Contest, contestant: NpuMoe, one: float, other: float) -> None:
    low, high = (replace(contestant, quantile=quantile).run(contest).rows.dropped for quantile in sorted((one, other)))
    assert high <= low


@given(contests(), npumoe())
def test_nothing_is_dropped_where_the_tiers_suffice(contest: Contest, contestant: NpuMoe) -> None:
    most = int(contest.workload.loads.max())
    assert replace(contestant, capacities=(max(1, most),)).run(contest).rows.dropped == 0
    known = replace(contest, calibration=contest.workload.loads[None])
    enough = sorted({*contestant.capacities, most + 1})
    found = replace(contestant, quantile=1.0, capacities=tuple(enough)).run(known)
    assert (found.rows.dropped, found.saliency_dropped) == (0, 0)


@given(contests(), npumoe(), st.floats(0, 3), st.floats(0, 3))
def test_a_higher_threshold_moves_groups_to_the_cpu_which_pads_nothing(
    contest: Contest, contestant: NpuMoe, one: float, other: float
) -> None:
    low, high = (replace(contestant, theta=theta).run(contest).rows for theta in sorted((one, other)))
    assert high.rows <= low.rows and high.dropped == low.dropped
    cold = replace(contestant, theta=1e9, dispatch_seconds=1.0).run(contest).rows
    assert cold.padding == 0


@given(contests(), st.data())
def test_each_expert_keeps_its_most_salient_routes(contest: Contest, data: st.DataObject) -> None:
    routes, norms = contest.routes[0], contest.norms[0]
    experts = contest.workload.model.experts
    tiers = np.array(data.draw(st.lists(st.integers(0, 5), min_size=experts, max_size=experts)))
    kept = kept_routes(routes, tiers, norms)
    for expert in range(experts):
        mine = np.flatnonzero(routes.expert == expert)
        weights = [abs(float(routes.weight[at])) * norms[routes.token[at]] for at in mine]
        best = sorted(range(len(mine)), key=lambda place: (-weights[place], place))[: tiers[expert]]
        assert sorted(mine[best]) == list(np.flatnonzero(kept & (routes.expert == expert)))


def test_equally_salient_routes_are_kept_in_their_order() -> None:
    routes = Routes.from_topk([[0], [0], [0]], np.array([[0.5], [-0.5], [0.5]], np.float32))
    assert kept_routes(routes, np.array([2]), np.array([1.0, 1.0, 1.0])).tolist() == [True, True, False]
    assert kept_routes(routes, np.array([2]), np.array([1.0, 2.0, 3.0])).tolist() == [False, True, True]


def test_tiers_by_hand() -> None:
    """Quantile 0.5 of three requests is the middle load, 0.6 the next one."""
    loads = np.array([[1, 4, 9], [1, 4, 30], [7, 5, 40]])
    assert tiers_of(loads, (2, 4, 8), 0.5).tolist() == [2, 4, 8]
    assert tiers_of(loads, (2, 4, 8), 0.6).tolist() == [8, 8, 8]
    assert tiers_of(loads, (2, 4, 8), 0.0).tolist() == [2, 4, 8]


def test_groups_are_of_one_tier_and_the_popular_share_them() -> None:
    tiers, popularity = np.array([2, 4, 2, 2, 4]), np.array([1.0, 3.0, 2.0, 2.0, 9.0])
    groups = [(group.experts.tolist(), group.tier, group.rows) for group in groups_of(tiers, popularity, 2)]
    assert groups == [([4, 1], 4, 8), ([2, 3], 2, 4), ([0], 2, 2)]


def test_a_request_by_hand() -> None:
    """Loads 2, 0, 4, 1, 1 and tiers of 1 and 2: expert 2 loses its two lightest routes, 0.2 and 0.1 of 3.0.

    Tier 2 has experts 2 and 0, one graph of 4 rows; tier 1 experts 3 and 4, of 2 rows, and 1, of 1. A row takes 0.5 ns
    and a dispatch 5, so a group of mean load below 10 is cold at theta = 1; at 0.5 the first, of load 6, is hot.
    """
    contest = by_hand()
    options = {"capacities": (1, 2), "group_size": 2, "cpu_slowdown": 4.0}
    dense = 32 + 2 * 80
    cold = NpuMoe(**options).run(contest)
    assert (cold.rows.rows, cold.rows.dropped) == (2 * 6, 2 * 2)
    assert cold.seconds * 1e9 == pytest.approx(dense + 2 * 6 * 0.5 * 4)
    assert (cold.peak_bytes, cold.preload_bytes) == (1049 + 1000, 1000)  # other memory, and two layers of five experts
    assert cold.saliency_dropped == pytest.approx(0.3 / 3.0)
    hot = NpuMoe(**options, theta=0.5).run(contest)
    assert (hot.rows.rows, hot.settings) == (2 * (4 + 2), "p=0.9, 2 of 6 graphs hot")
    assert hot.seconds * 1e9 == pytest.approx(dense + 2 * max(5 + 4 * 0.5, 2 * 0.5 * 4))
    in_turn = NpuMoe(**options, theta=0.5, overlap=False).run(contest)
    assert in_turn.seconds * 1e9 == pytest.approx(dense + 2 * (5 + 4 * 0.5 + 2 * 0.5 * 4))
    every = NpuMoe(**options, theta=0.0).run(contest)
    assert (every.rows.rows, every.settings) == (2 * 7, "p=0.9, 6 of 6 graphs hot")


def test_outcomes_by_quantile() -> None:
    contestant = NpuMoe(capacities=(1, 2, 4))
    found = by_quantile(by_hand(), contestant, [0, 1])
    assert found == {p: replace(contestant, quantile=p).run(by_hand()) for p in (0, 1)}


def test_the_cpu_is_slower_by_what_was_published() -> None:
    assert "CPU rows 4.4 times as long" in NpuMoe().run(by_hand()).assumed


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"quantile": 1.5}, "a quantile of 1.5: give 0 to 1"),
        ({"capacities": (4, 2)}, "tiers of 4, 2 rows"),
        ({"capacities": ()}, "tiers of no rows"),
        ({"group_size": 0}, "graphs of 0 experts"),
        ({"theta": -1.0}, "theta -1: give 0 or more"),
        ({"dispatch_seconds": float("inf")}, "dispatch_seconds inf"),
        ({"cpu_slowdown": -2.0}, "cpu_slowdown -2"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(EStreamError, match=f"NPUMoE-like can't run with .*{sentence}"):
        NpuMoe(**options).run(by_hand())  # type: ignore[arg-type]
