"""Profiles: what replayed requests took comes out pooled, of their own routes and of others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import Early
from estream_lab.simulate import LayerTimes, OwnTimes, ServiceTimes, SharedBandwidth, replay
from estream_lab.trace import Span, Trace
from estream_lab.tuning import pipe_times
from estream_lab.tuning.calibration import Calibration
from estream_lab.tuning.profile import Profile

from .profiles import RECORD, SERVICE, calibration, profile, routes

FAIR = SharedBandwidth(2e9)  # two bytes a ns, shared


def made(experts: int = 10, layers: int = 3, storage: SharedBandwidth | OwnTimes = FAIR, seed: int = 0) -> Profile:
    loads = routes(layers, experts, seed)
    pairs = [(size, depth) for size in (2, 5) for depth in (1, 2)]
    return profile(loads, [calibration(loads, size, depth, storage) for size, depth in pairs])


def test_a_replayed_request_gives_its_service_times() -> None:
    loads = np.array([[4, 0, 0, 0, 1], [1, 1, 1, 1, 1]])
    found = calibration(loads, 2, 2, SharedBandwidth(1e9))
    assert (found.group_size, found.queue_depth, found.banks) == (2, 2, 3)
    assert found.non_expert_ns == (3000, 3000)
    assert found.outside_ns == 5 + 11 + 2 * 7
    assert [tuple(run) for run in found.executions] == [
        (0, 0, 190), (0, 2, 160), (1, 0, 220), (1, 1, 220), (1, 2, 160),
    ]  # fmt: skip
    first, second, third = found.loadings[:3]  # two of 2000 bytes share; when both have ended, the last runs alone
    assert (first.ns, first.own_ns, first.outstanding) == (4000, 2000, 2)
    assert (second.group, second.bytes, second.ns, second.own_ns) == (1, 2000, 4000, 2000)
    assert (third.layer, third.group, third.bytes, third.outstanding) == (0, 2, 1000, 1)


def test_storage_that_starts_late_is_given_the_blame() -> None:
    """The second read starts 30 ns after the first one's end, which let it start: these are its own, and part of L."""
    spans = [
        ("request", "prefill", 0, 900, {}), ("dense", "attention", 0, 400, {"layer": 0}),
        ("storage", "read", 0, 100, {"layer": 0, "group": 0, "bank": 0, "bytes": 100}),
        ("storage", "read", 130, 230, {"layer": 0, "group": 1, "bank": 1, "bytes": 100}),
        ("plan", "routed", 400, 400, {"layer": 0, "group": 0, "rows": 1}),
        ("plan", "routed", 400, 400, {"layer": 0, "group": 1, "rows": 1}),
        ("expert", "expert group", 400, 500, {"layer": 0, "group": 0, "bank": 0, "rows": 1}),
        ("expert", "expert group", 500, 600, {"layer": 0, "group": 1, "bank": 1, "rows": 1}),
    ]  # fmt: skip
    made = tuple(Span("host", "host", unit, name, start, end - start, **more) for unit, name, start, end, more in spans)
    found = Calibration.of(Trace(made, {"group_size": 2, "queue_depth": 1, "banks": 2}))
    assert [(read.ns, read.own_ns, read.outstanding) for read in found.loadings] == [(100, 100, 1), (130, 130, 1)]
    assert profile(np.ones((1, 4), np.int64), [found]).grid(2).reads.tolist() == [
        [2300, 2300]
    ]  # 1.15 ns for each of 2000 bytes


@given(experts=st.integers(4, 12), seed=st.integers(0, 99))
def test_reads_that_share_a_bandwidth_take_as_many_times_longer(experts: int, seed: int) -> None:
    found = made(experts, seed=seed)
    for size in found.group_sizes:
        grid = found.grid(size)
        assert found.bandwidth(size, 1) == pytest.approx(2e9, rel=0.01)
        assert found.bandwidth(size, 2) == pytest.approx(2e9, rel=0.01)
        twice = 2 if found.groups(size) > 1 else 1
        assert grid.reads[1] == pytest.approx(twice * grid.reads[0], rel=0.01)


def test_reads_that_are_served_in_turn_take_as_long_in_a_full_queue() -> None:
    """The first of two that are asked for at once ends after its own time, the second after twice that."""
    loads = np.ones((1, 4), np.int64)
    layer = LayerTimes(0, 9000, (2000, 4000), {0: 10, 1: 10}, (2000, 2000))
    trace = replay(ServiceTimes((layer,)), Policies(Early()), banks=2, queue_depth=2)
    trace.provenance["group_size"] = 2
    found = profile(loads, [calibration(loads, 2, 1, FAIR), Calibration.of(trace)])
    assert found.bandwidth(2, 2) == pytest.approx(1e9)
    assert found.grid(2).reads[-1].tolist() == [4000, 4000]


def test_lone_reads_are_no_part_of_a_full_queue() -> None:
    """At depth 2 the third read of each layer runs alone, and is given a bandwidth of its own here."""
    loads = np.ones((2, 6), np.int64)
    layers = [LayerTimes(i, 9000, (2000, 2000, 10), dict.fromkeys(range(3), 10), (2000,) * 3) for i in range(2)]
    trace = replay(ServiceTimes(tuple(layers)), Policies(Early()), banks=2, queue_depth=2)
    trace.provenance["group_size"] = 2
    found = profile(loads, [calibration(loads, 2, 1, FAIR), Calibration.of(trace)])
    assert found.bandwidth(2, 2) == pytest.approx(2e9)
    assert found.grid(2).reads[-1] == pytest.approx(2000)


def test_a_grid_tells_which_groups_have_routes_and_a_last_group_has_its_own_bytes() -> None:
    loads = np.array([[1, 0, 0, 0, 2], [0, 0, 3, 0, 0], [0, 0, 0, 0, 0]])
    ones = np.ones_like(loads)
    grid = profile(ones, [calibration(ones, 2, 1, FAIR)]).grid(2, loads)
    assert grid.offsets.tolist() == [0, 3, 6, 9] and grid.reads.tolist() == [[1000, 1000, 500] * 3]  # at depth 1 alone
    assert grid.routed.tolist() == [True, False, True, False, True, False, False, False, False]
    assert grid.needed.offsets.tolist() == [0, 2, 3, 3]
    assert grid.needed.reads.tolist() == [[1000, 500, 1000]]
    assert grid.needed.runs.tolist() == [160, 170, 180] and grid.runs.sum() == 160 + 170 + 180


def test_service_times_are_the_medians_of_their_samples() -> None:
    loads = routes(2, 4)
    slow = [calibration(loads, size, 1, FAIR, non_expert=ns) for size, ns in ((2, 1000), (4, 2000), (4, 9000))]
    found = profile(loads, slow)
    assert found.grid(2).non_expert.tolist() == [2000, 2000]  # pooled across g
    assert found.grid(2, runs=slow[:1]).non_expert.tolist() == [1000, 1000]
    assert found.outside_ns() == 5 + 11 + 2 * 7
    # executions are pooled within g
    fixed = [SERVICE.__class__(1, part, 50, 10, 0, 0, 0) for part in (100, 300, 500)]
    runs = [calibration(loads, 4, 1, FAIR, service=service) for service in fixed]
    assert profile(loads, runs).grid(4).runs == pytest.approx(np.round(fixed[1].predict(loads)))


def test_routes_of_another_prompt_run_as_the_service_model_says() -> None:
    found = made()
    other = routes(3, 10, seed=5)
    assert found.grid(5, other).runs == pytest.approx(SERVICE.predict(other.reshape(6, 5)))
    with pytest.raises(EStreamError, match=r"routes of shape \(3, 9\) are not of this profile's 3 layers of 10"):
        found.grid(5, other[:, :9])


def test_a_depth_that_the_layer_has_no_groups_for_is_that_of_fewer_reads() -> None:
    loads = routes(2, 4)
    found = profile(
        loads, [calibration(loads, 2, 1, FAIR), calibration(loads, 2, 2, FAIR), calibration(loads, 4, 1, FAIR)]
    )
    assert found.queue_depths == (1, 2)
    assert found.bandwidth(4, 2) == found.bandwidth(4, 1)
    assert found.grid(4).reads[0].tolist() == found.grid(4).reads[1].tolist()
    with pytest.raises(EStreamError, match="no groups of 3: choose from 2, 4"):
        found.grid(3)


@given(seed=st.integers(0, 99))
def test_the_model_foretells_a_replay_with_the_profiled_times(seed: int) -> None:
    """With each read its own time, one at a time, the replay is the recurrence: a profile loses nothing on the way."""
    loads = routes(3, 12, seed, most=60) + 1
    run = calibration(loads, 4, 1, OwnTimes())
    found = profile(loads, [run])
    layers = [
        LayerTimes(
            i, 3000, (4 * RECORD,) * 3, {k: round(float(SERVICE.predict(loads[i].reshape(3, 4))[k])) for k in range(3)}
        )
        for i in range(3)
    ]
    trace = replay(ServiceTimes(tuple(layers)), Policies(Early()), banks=2, queue_depth=1)
    assert pipe_times(found.grid(4), 2, 1)[1] == trace.request_ns
