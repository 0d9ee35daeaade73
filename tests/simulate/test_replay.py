"""The pipeline on a virtual clock: worked examples, and what holds under any policy and any service times."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies, PolicyError
from estream_lab.experts.protocol import GroupKey
from estream_lab.experts.retention import KeepFirst, KeepLatest, Retention
from estream_lab.experts.schedule import AfterRouting, CarryOver, Early, OnDemand, Schedule, View, policy
from estream_lab.experts.watch import hazards
from estream_lab.simulate import (
    LayerTimes,
    OwnTimes,
    ServiceTimes,
    SharedBandwidth,
    Storage,
    by_hand,
    replay,
    timetable,
)
from estream_lab.trace import Span, Trace

A = by_hand([4, 4, 4, 4], [2, 3, 1, 2], 5)


def run(times: ServiceTimes, name: str = "early", banks: int = 2, queue: int = 2) -> Trace:
    return replay(times, Policies(policy(name)), banks=banks, queue_depth=queue)


def test_worked_example_a() -> None:
    two = timetable(run(A))
    assert (two.a, two.d) == ((0, 0, 7, 10), (4, 4, 11, 14))
    assert (two.s, two.f) == ((5, 7, 11, 14), (7, 10, 12, 16))
    three = timetable(run(A, banks=3))
    assert (three.a, three.d) == ((0, 0, 4, 7), (4, 4, 8, 11))
    assert (three.s, three.f) == ((5, 7, 10, 11), (7, 10, 11, 13))
    one = timetable(run(A, banks=1, queue=1))
    assert (one.a, one.d, one.f) == ((0, 7, 14, 19), (4, 11, 18, 23), (7, 14, 19, 25))
    after = timetable(run(A, "after-routing"))
    assert (after.a, after.f) == ((5, 5, 11, 14), (11, 14, 16, 20))


def test_worked_example_b_with_queue_places_in_place_of_lanes() -> None:
    """Read 4 follows read 3 when a place is free, not read 2 in its lane as the recurrence has it: a and d differ."""
    found = timetable(run(by_hand([9, 1, 1, 1], [1, 1, 1, 1], 2), banks=4))
    assert (found.a, found.d) == ((0, 0, 1, 2), (9, 1, 2, 3))  # the recurrence: 0, 0, 9, 1 and 9, 1, 10, 2
    assert found.f == (10, 11, 12, 13)


@pytest.mark.parametrize("name", ["early", "after-routing", "on-demand"])
def test_routes_that_are_known_at_once_come_before_or_after_reads_as_they_were_decided(name: str) -> None:
    """Reads and routes at the same time: an early read of a group without routes isn't a useless one."""
    times = ServiceTimes((LayerTimes(0, 0, (4, 4, 4, 4), {0: 2, 2: 1, 3: 2}),))
    trace = run(times, name, banks=4, queue=4)
    assert len(trace.select("storage")) == (4 if name == "early" else 3)
    assert hazards(trace) == []


def test_carried_over_reads_fill_the_layer_boundary() -> None:
    layer = {"non_expert_ns": 5, "reads_ns": (8, 8), "runs_ns": {0: 2, 1: 2}}
    request = ServiceTimes((LayerTimes(0, **layer), LayerTimes(1, **layer)))
    plain = replay(request, Policies(Early()), banks=2, queue_depth=2)
    carried = replay(request, Policies(CarryOver()), banks=2, queue_depth=2)
    starts = [[span.start_ns for span in trace.select("storage", 1)] for trace in (plain, carried)]
    assert starts == [[12, 12], [10, 12]]
    assert [trace.request_ns for trace in (plain, carried)] == [24, 22]
    assert (plain.provenance["carry_over"], carried.provenance["carry_over"]) == (False, True)


def test_unneeded_reads_are_waited_for_at_the_end_of_their_layer() -> None:
    trace = run(by_hand([3, 20, 3], [1, 1], 4, needed=[0, 2]), banks=3)
    assert [span.group for span in trace.select("expert")] == [0, 2]
    (wait,) = [span for span in trace.select("wait") if span.group is None]
    assert (wait.start_ns, wait.end_ns) == (7, 20)  # 2: read from 3 to 6, run until 7
    assert trace.request_ns == 20


def test_what_is_kept_is_not_read_again() -> None:
    trace = replay([A, A], Policies(Early(), KeepFirst(1)), banks=2, queue_depth=2)
    reads = [(span.request, span.group) for span in trace.select("storage")]
    assert reads == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]
    (kept,) = trace.select("plan", name="kept")
    first, second = trace.windows
    assert (kept.request, kept.group, kept.start_ns) == (1, 0, second[0])
    assert second[0] == first[1]
    assert trace.provenance["retention"] == "first"
    assert hazards(trace) == []


def test_reads_that_share_a_bandwidth() -> None:
    layer = LayerTimes(0, 5, (1, 1), {0: 2, 1: 2}, read_bytes=(10, 30))
    trace = replay(
        ServiceTimes((layer,)), Policies(Early()), banks=2, queue_depth=2, storage=SharedBandwidth(1e9)
    )  # 1 byte/ns
    assert [(span.start_ns, span.end_ns, span.bytes) for span in trace.select("storage")] == [(0, 40, 30), (0, 20, 10)]
    assert trace.request_ns == 42


def test_spans_have_a_lanes_units_and_fields_and_say_that_they_are_simulated() -> None:
    layer = LayerTimes(0, 5, (4, 4), {1: 2}, (4096, 4096), rows={1: 7}, rest_ns=3)
    request = ServiceTimes(
        (layer,), lead_ns=1, tail_ns=2, provenance={"model": "tiny", "group_size": 4, "lane": "host"}
    )
    trace = replay(request, Policies(AfterRouting()), banks=2, queue_depth=1)
    assert {span.unit for span in trace.spans} == {"request", "dense", "expert", "wait", "storage", "plan"}
    assert {(span.lane, span.clock) for span in trace.spans} == {("simulator", "simulated")}
    assert [(span.name, span.start_ns, span.end_ns) for span in trace.select("dense")] == [
        ("embedding", 0, 1), ("non-expert work", 1, 6), ("head", 15, 17),
    ]  # fmt: skip
    (run,) = trace.select("expert")
    assert (run.layer, run.group, run.bank, run.rows, run.start_ns) == (0, 1, 0, 7, 10)
    (read,) = trace.select("storage")
    assert (read.layer, read.group, read.bank, read.bytes) == (0, 1, 0, 4096)
    assert [(span.name, span.start_ns, span.layer, span.group, span.rows) for span in trace.select("plan")] == [
        ("routed", 6, 0, 1, 7), ("issued", 6, 0, 1, None), ("ended", 12, 0, None, None),
    ]  # fmt: skip
    facts = {"kind": "simulated from measured service times", "lane": "simulator", "model": "tiny", "group_size": 4}
    assert trace.provenance | facts == trace.provenance
    assert run_kind(by_hand([1], [1], 0)) == "simulated from service times made up"


def run_kind(times: ServiceTimes) -> object:
    return run(times).provenance["kind"]


class LastFirst(Schedule):
    name = "last first"

    def next_read(self, view: View) -> GroupKey | None:
        return view.unread[-1] if view.unread else None


class Idle(Schedule):
    name = "idle"

    def next_read(self, view: View) -> GroupKey | None:
        return None


def test_a_wrong_policy_is_refused_as_in_a_live_lane() -> None:
    with pytest.raises(PolicyError, match="the last spare bank goes to the first group in visit order"):
        replay(A, Policies(LastFirst()), banks=2, queue_depth=2)
    with pytest.raises(PolicyError, match="'idle' starves the executor: it waits for group 0 of layer 0"):
        replay(A, Policies(Idle()), banks=2, queue_depth=2)


def test_what_cannot_be_replayed_is_told() -> None:
    with pytest.raises(EStreamError, match="not B=0 and Q=2"):
        run(A, banks=0)
    with pytest.raises(EStreamError, match="nothing to replay"):
        replay([], Policies(Early()), banks=1, queue_depth=1)
    with pytest.raises(EStreamError, match="layer 0 has 4 groups in one pass and 1 in another"):
        replay([A, by_hand([1], [1], 1)], Policies(Early()), banks=1, queue_depth=1)
    with pytest.raises(EStreamError, match="no time"):
        by_hand([0], [1], 1)
    with pytest.raises(EStreamError, match="runs group 3, but has 2 groups"):
        by_hand([1, 1], [1], 1, needed=[3])


# ---- what holds whatever the policy and the times

SCHEDULES = (OnDemand(), AfterRouting(), Early(), CarryOver())


@st.composite
def requests(draw: st.DrawFn) -> list[ServiceTimes]:
    """One to three requests through the same layers, some of them in chunks, with arbitrary times and routes."""
    groups = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    found = []
    for _ in range(draw(st.integers(1, 3))):
        passes = []
        for layer, count in [*enumerate(groups)] * draw(st.integers(1, 2)):
            needed = draw(st.sets(st.integers(0, count - 1), min_size=1))
            reads = tuple(draw(st.integers(1, 9)) for _ in range(count))
            runs = {group: draw(st.integers(1, 6)) for group in needed}
            passes.append(
                LayerTimes(layer, draw(st.integers(0, 9)), reads, runs, reads, rest_ns=draw(st.integers(0, 2)))
            )
        found.append(ServiceTimes(tuple(passes), draw(st.integers(0, 2)), draw(st.integers(0, 2))))
    return found


@given(
    asked=requests(), schedule=st.sampled_from(SCHEDULES), banks=st.integers(1, 4), queue=st.integers(1, 3),
    retention=st.sampled_from([Retention(), KeepFirst(1), KeepLatest()]),
    storage=st.sampled_from([OwnTimes(), SharedBandwidth(1e9), SharedBandwidth(0.7e9, latency_ns=3)]),
)  # fmt: skip
def test_everything_needed_runs_once_and_nothing_collides(
    asked: list[ServiceTimes], schedule: Schedule, banks: int, queue: int, retention: Retention, storage: Storage
) -> None:
    trace = replay(asked, Policies(schedule, retention), banks=banks, queue_depth=queue, storage=storage)
    assert hazards(trace) == []
    for number, request in enumerate(asked):
        ran = [(span.layer, span.group) for span in trace.select("expert") if span.request == number]
        assert ran == [(times.layer, group) for times in request.passes for group in times.needed]
    reads = [(span.request, span.layer, span.group) for span in trace.select("storage")]
    if type(retention) is Retention:
        for number, request in enumerate(asked):
            for layer in {times.layer for times in request.passes}:
                mine = [times for times in request.passes if times.layer == layer]
                for group in range(len(mine[0].reads_ns)):
                    wanted = sum(group in times.needed for times in mine)
                    count = reads.count((number, layer, group))
                    early = isinstance(schedule, Early)
                    assert wanted <= count <= (len(mine) if early else wanted)
    alone([*trace.select("dense"), *trace.select("expert"), *trace.select("wait")])
    for bank in range(banks):
        alone([span for unit in ("storage", "expert") for span in trace.select(unit) if span.bank == bank])
    at_most(queue, trace.select("storage"))
    assert no_time_is_lost(trace, asked)


def alone(spans: Sequence[Span]) -> None:
    ordered = sorted((span.start_ns, span.end_ns) for span in spans)
    assert all(end <= start for (_, end), (start, _) in pairwise(ordered))


def at_most(queue: int, reads: Sequence[Span]) -> None:
    for read in reads:
        assert sum(other.start_ns <= read.start_ns < other.end_ns for other in reads) <= queue


def no_time_is_lost(trace: Trace, asked: Sequence[ServiceTimes]) -> bool:
    """The executor works, waits, or is between two layers."""
    work = sum(span.duration_ns for unit in ("dense", "expert", "wait") for span in trace.select(unit))
    return trace.request_ns == work + sum(times.rest_ns for request in asked for times in request.passes)
