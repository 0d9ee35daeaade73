"""Bubbles by cause, against worked example A by hand, and against the idle shares."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.retention import KeepLatest, Retention
from estream_lab.experts.schedule import AfterRouting, CarryOver, Early, OnDemand, Schedule, policy
from estream_lab.simulate import LayerTimes, ServiceTimes, by_hand, replay
from estream_lab.trace import Span, Trace, npu_idle, storage_idle
from estream_lab.trace.bubbles import CAUSES, Bubble, bubble_shares, bubbles

A = by_hand([4, 4, 4, 4], [2, 3, 1, 2], 5)
LAYER = {"non_expert_ns": 5, "reads_ns": (8, 8), "runs_ns": {0: 2, 1: 2}, "rest_ns": 1}
TWO = ServiceTimes((LayerTimes(0, **LAYER), LayerTimes(1, **LAYER)))


def found(trace: Trace, unit: str) -> list[tuple[int, int, str]]:
    return [(each.start_ns, each.end_ns, each.cause) for each in bubbles(trace) if each.unit == unit]


def replayed(times: ServiceTimes, schedule: Schedule, banks: int = 2) -> Trace:
    return replay(times, Policies(schedule), banks=banks, queue_depth=2)


def test_worked_example_a_by_cause() -> None:
    """a = 0,0,7,10; d = 4,4,11,14; s = 5,7,11,14; f = 7,10,12,16."""
    early = replayed(A, Early())
    assert found(early, "storage") == [(4, 7, "bank"), (14, 16, "nothing left")]
    assert found(early, "compute") == [(10, 11, "data"), (12, 14, "data")]
    after = replayed(A, AfterRouting())  # a = 5,5,11,14; d = 9,9,15,18; s = 9,11,15,18; f = 11,14,16,20
    assert found(after, "storage") == [(0, 5, "routes"), (9, 11, "bank"), (18, 20, "nothing left")]
    assert found(after, "compute") == [(5, 9, "data"), (14, 15, "data"), (16, 18, "data")]
    demand = replayed(A, OnDemand(), banks=3)  # a = 5,11,18,23; d = 9,15,22,27; f = 11,18,23,29
    assert found(demand, "storage") == [
        (0, 5, "routes"), (9, 11, "schedule's choice"), (15, 18, "schedule's choice"), (22, 23, "schedule's choice"),
        (27, 29, "nothing left"),
    ]  # fmt: skip
    assert {cause for _, _, cause in found(replayed(A, OnDemand(), banks=1), "storage")} == {
        "routes", "bank", "nothing left",
    }  # fmt: skip


def test_a_layer_boundary_is_one_only_where_nothing_is_read_ahead() -> None:
    """Early: reads 0-8, runs 8-12, the next layer begins at 13. Carried over: reads 10-18 and 12-20."""
    assert found(replayed(TWO, Early()), "storage") == [(8, 13, "layer boundary"), (21, 26, "nothing left")]
    carried = replayed(TWO, CarryOver())
    assert found(carried, "storage") == [(8, 10, "bank"), (20, 23, "nothing left")]
    assert found(carried, "compute") == [(5, 8, "data"), (12, 13, "layer boundary"), (22, 23, "layer boundary")]
    after = found(replayed(TWO, AfterRouting()), "storage")
    assert after[1:3] == [(13, 18, "layer boundary"), (18, 23, "routes")]


def test_unneeded_reads_hold_up_the_end_of_a_layer() -> None:
    trace = replayed(by_hand([3, 20, 3], [1, 1], 4, needed=[0, 2]), Early(), banks=3)  # 2: read 3-6, run 6-7
    assert found(trace, "compute") == [(5, 6, "data"), (7, 20, "unneeded read")]


def test_hand_over_is_what_follows_the_last_event() -> None:
    """The second read could start when the first run ended, at 20, and starts at 23; compute starts 2 late."""
    spans = (
        ("request", 0, 60, {}), ("dense", 0, 10, {"layer": 0}), ("storage", 0, 8, {"group": 0, "bank": 0}),
        ("plan", 10, 10, {"group": 0, "rows": 1}), ("plan", 10, 10, {"group": 1, "rows": 1}),
        ("expert", 12, 20, {"group": 0, "bank": 0}), ("storage", 23, 40, {"group": 1, "bank": 0}),
        ("wait", 20, 41, {"group": 1}), ("expert", 43, 60, {"group": 1, "bank": 0}),
    )  # fmt: skip
    trace = Trace(
        tuple(
            Span(
                "host", "host", unit, "routed" if unit == "plan" else unit, start, end - start, **({"layer": 0} | more)
            )
            for unit, start, end, more in spans
        ),
        {"banks": 1},
    )
    assert found(trace, "storage") == [(8, 20, "bank"), (20, 23, "hand-over"), (40, 60, "nothing left")]
    assert found(trace, "compute") == [(10, 12, "hand-over"), (20, 41, "data"), (41, 43, "hand-over")]


@st.composite
def requests(draw: st.DrawFn) -> list[ServiceTimes]:
    asked = []
    for _ in range(draw(st.integers(1, 2))):
        passes = []
        for layer in range(draw(st.integers(1, 3))):
            needed = draw(st.sets(st.integers(0, 3), min_size=1))
            reads = tuple(draw(st.integers(1, 9)) for _ in range(4))
            runs = {group: draw(st.integers(1, 6)) for group in needed}
            passes.append(LayerTimes(layer, draw(st.integers(0, 9)), reads, runs, rest_ns=draw(st.integers(0, 2))))
        asked.append(ServiceTimes(tuple(passes), draw(st.integers(0, 2)), draw(st.integers(0, 2))))
    return asked


@given(
    asked=requests(), banks=st.integers(1, 4), queue=st.integers(1, 2),
    schedule=st.sampled_from([OnDemand(), AfterRouting(), Early(), CarryOver()]),
    retention=st.sampled_from([Retention(), KeepLatest()]),
)  # fmt: skip
def test_bubbles_are_all_idle_time_and_no_other(
    asked: list[ServiceTimes], banks: int, queue: int, schedule: Schedule, retention: Retention
) -> None:
    trace = replay(asked, Policies(schedule, retention), banks=banks, queue_depth=queue)
    shares = bubble_shares(trace)
    assert sum(shares["storage"].values()) == pytest.approx(storage_idle(trace))
    assert sum(shares["compute"].values()) == pytest.approx(npu_idle(trace))
    every = bubbles(trace)
    assert all(each.start_ns < each.end_ns and each.cause in CAUSES for each in every)
    for unit in ("storage", "compute"):
        mine = [each for each in every if each.unit == unit]
        assert mine == sorted(mine, key=lambda each: each.start_ns)
    assert {each.cause for each in every if each.unit == "compute"} <= {"data", "unneeded read", "layer boundary"}
    causes = {each.cause for each in every if each.unit == "storage"}
    assert "hand-over" not in causes  # a virtual clock loses no time
    if type(schedule) is AfterRouting:
        assert "schedule's choice" not in causes or retention.name == "latest"
    if type(schedule) is Early:
        assert "routes" not in causes or retention.name == "latest"


def test_what_has_no_bubbles_is_told() -> None:
    trace = replayed(A, policy("early"))
    with pytest.raises(EStreamError, match="how many banks"):
        bubbles(Trace(trace.spans))
    assert bubbles(Trace(trace.spans), banks=2) == bubbles(trace)
    steps = Trace(tuple(replace(span, clock="order") for span in trace.spans), trace.provenance)
    with pytest.raises(EStreamError, match="without time"):
        bubbles(steps)
    assert Bubble("storage", 3, 7, "bank").duration_ns == 4
