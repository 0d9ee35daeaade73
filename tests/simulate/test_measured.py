"""Service times out of traces: what was put into a replay comes out again, and hand-over is counted in."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import AfterRouting, CarryOver, Early, OnDemand, Schedule
from estream_lab.simulate import (
    LayerTimes,
    ServiceTimes,
    SharedBandwidth,
    by_hand,
    replay,
    service_times,
    shared_bandwidth,
)
from estream_lab.trace import Span, Trace

SCHEDULES = (OnDemand(), AfterRouting(), Early(), CarryOver())


@st.composite
def requests(draw: st.DrawFn) -> ServiceTimes:
    """A request, perhaps in two chunks, that needs every group."""
    groups = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    passes = []
    for layer, count in [*enumerate(groups)] * draw(st.integers(1, 2)):
        reads = tuple(draw(st.integers(1, 9)) for _ in range(count))
        runs = {group: draw(st.integers(1, 6)) for group in range(count)}
        rows = {group: draw(st.integers(1, 9)) for group in range(count)}
        passes.append(
            LayerTimes(layer, draw(st.integers(1, 9)), reads, runs, (64,) * count, rows, draw(st.integers(0, 2)))
        )
    return ServiceTimes(tuple(passes), draw(st.integers(0, 2)), draw(st.integers(1, 3)))


@given(times=requests(), schedule=st.sampled_from(SCHEDULES), banks=st.integers(1, 4), queue=st.integers(1, 3))
def test_what_is_replayed_has_the_service_times_that_went_in(
    times: ServiceTimes, schedule: Schedule, banks: int, queue: int
) -> None:
    trace = replay(times, Policies(schedule), banks=banks, queue_depth=queue)
    found = service_times(trace)
    for got, given_ in zip(found.passes, times.passes, strict=True):
        count = len(given_.reads_ns)  # layers with fewer groups than the largest one get made-up ones
        assert replace(got, reads_ns=got.reads_ns[:count], read_bytes=got.read_bytes[:count]) == given_
    assert (found.lead_ns, found.tail_ns) == (times.lead_ns, times.tail_ns)
    assert found.provenance == trace.provenance


def measured(**provenance: float) -> Trace:
    """One layer, B = 1: threads hand over in 1 to 3 ns; the read of group 1 follows the run of group 0."""
    spans = (
        ("request", "prefill", 0, 70, {}), ("dense", "embedding", 0, 2, {}),
        ("dense", "attention", 3, 10, {"layer": 0}), ("dense", "router", 11, 12, {"layer": 0}),
        ("storage", "read", 4, 9, {"layer": 0, "group": 0, "bank": 0, "bytes": 50}),
        ("plan", "routed", 13, 13, {"layer": 0, "group": 0, "rows": 3}),
        ("plan", "routed", 13, 13, {"layer": 0, "group": 1, "rows": 1}),
        ("expert", "expert group", 15, 20, {"layer": 0, "group": 0, "bank": 0, "rows": 3}),
        ("storage", "read", 22, 40, {"layer": 0, "group": 1, "bank": 0, "bytes": 50}),
        ("wait", "wait for group", 21, 41, {"layer": 0, "group": 1}),
        ("expert", "expert group", 42, 50, {"layer": 0, "group": 1, "bank": 0, "rows": 1}),
        ("dense", "head", 60, 68, {}),
    )  # fmt: skip
    made = tuple(Span("host", "host", unit, name, start, end - start, **more) for unit, name, start, end, more in spans)
    return Trace(made, {"banks": 1, "queue_depth": 1, **provenance})


def test_hand_over_is_part_of_the_times_so_that_the_replay_takes_as_long() -> None:
    times = service_times(measured())
    (layer,) = times.passes
    assert (times.lead_ns, layer.non_expert_ns, layer.rest_ns, times.tail_ns) == (3, 10, 10, 10)
    assert layer.reads_ns == (6, 20)  # from the layer's begin, and from the end of the run before
    assert layer.runs_ns == {0: 7, 1: 10}  # from when routes are known, and from the end of the read
    assert (layer.rows, layer.read_bytes) == ({0: 3, 1: 1}, (50, 50))
    assert replay(times, Policies(Early()), banks=1, queue_depth=1).request_ns == 70


def test_groups_that_were_not_read_get_what_is_usual() -> None:
    times = by_hand([4, 6, 20, 6], [1, 1, 1], 5, needed=[0, 1, 3])
    trace = replay(times, Policies(AfterRouting()), banks=2, queue_depth=1)
    (layer,) = service_times(trace, groups=6).passes
    assert layer.reads_ns == (4, 6, 6, 6, 6, 6)
    assert layer.needed == (0, 1, 3)


def test_a_read_is_its_bytes_at_the_shared_bandwidth_and_what_it_takes_on_top() -> None:
    layer = LayerTimes(0, 5, (1,) * 3, dict.fromkeys(range(3), 2), (30, 40, 50))
    storage = SharedBandwidth(2e9, latency_ns=7)
    lone = replay(ServiceTimes((layer,)), Policies(AfterRouting()), banks=2, queue_depth=1, storage=storage)
    assert shared_bandwidth(lone) == storage
    assert shared_bandwidth(lone, 4e9) == SharedBandwidth(4e9, latency_ns=7)
    several = replay(ServiceTimes((layer,)), Policies(Early()), banks=3, queue_depth=3, storage=SharedBandwidth(2e9))
    assert shared_bandwidth(several) == SharedBandwidth(2e9)
    undeclared = shared_bandwidth(measured())
    assert undeclared.bytes_per_second == pytest.approx(100 / 23 * 1e9)  # 5 and 18 ns of reading
    assert shared_bandwidth(measured(read_bandwidth_bytes_per_second=10e9)).latency_ns == 8  # of 1 + 0 and 2 + 13


def test_what_has_no_service_times_is_told() -> None:
    times = by_hand([4, 4], [2, 3], 5)
    two = replay([times, times], Policies(Early()), banks=1, queue_depth=1)
    with pytest.raises(EStreamError, match="one request, and this trace has 2"):
        service_times(two)
    one = replay(times, Policies(Early()), banks=1, queue_depth=1)
    with pytest.raises(EStreamError, match="without time"):
        service_times(Trace(tuple(replace(span, clock="order") for span in one.spans)))
    with pytest.raises(EStreamError, match="nothing was read"):
        service_times(Trace(tuple(span for span in one.spans if span.unit != "storage")))
    with pytest.raises(EStreamError, match="group 1 of layer 0 has routes and was not run"):
        service_times(Trace(tuple(span for span in one.spans if (span.unit, span.group) != ("expert", 1))))
    with pytest.raises(EStreamError, match="no bytes were read"):
        shared_bandwidth(one)
