"""What holds of every simulated request: nothing is lost, nothing is in two places, nothing is faster than it can be.

Traces alone are looked at, with what was put in; how the simulator came to them isn't.
"""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.experts.schedule import POLICIES
from estream_lab.experts.watch import hazards
from estream_lab.simulate.device import Device
from estream_lab.simulate.models import ModelShape
from estream_lab.simulate.soc import Settings, Simulation, service_times_of, simulate
from estream_lab.simulate.workload import Workload
from estream_lab.trace import Span

from .devices import device, drawn_devices, workload

Case = tuple[Device, Workload, Settings]


@st.composite
def cases(draw: st.DrawFn, schedules: tuple[str, ...] = tuple(POLICIES), carry: bool = True) -> Case:
    """A device, a model of up to three layers, its routes, and settings that it can run with."""
    layers, experts, size = draw(st.integers(1, 3)), draw(st.integers(1, 7)), draw(st.integers(1, 4))
    size = min(size, experts)
    model = ModelShape(
        "drawn", layers, experts, 1, 1, 1, draw(st.integers(1, 300)), draw(st.integers(1, 20)), draw(st.integers(0, 4)),
        draw(st.integers(0, 20)), 0, 0, 0,
    )  # fmt: skip
    made = draw(drawn_devices())
    loads = [draw(st.lists(st.integers(0, 9), min_size=experts, max_size=experts)) for _ in range(layers)]
    schedule = draw(st.sampled_from(schedules))
    carried = carry and schedule == "early" and draw(st.booleans())
    banks = draw(st.integers(1, -(-experts // size)))
    asked = workload(*loads, tokens=draw(st.integers(1, 5)), model=model)
    return made, asked, Settings(size, banks, draw(st.integers(1, 3)), schedule, carried)


@given(cases())
def test_every_group_with_routes_is_read_and_then_run_once(case: Case) -> None:
    _, asked, settings = case
    trace = simulate(*case).trace
    rows = asked.rows(settings.group_size)
    wanted = Counter({(layer, group): 1 for layer, loads in enumerate(rows) for group, n in enumerate(loads) if n})
    ran = trace.select("expert")
    assert Counter((span.layer, span.group) for span in ran) == wanted
    assert all(span.rows == rows[span.layer, span.group] for span in ran)
    reads = {(span.layer, span.group): span for span in trace.select("storage")}
    assert len(reads) == len(trace.select("storage"))  # each group once, also the speculative ones
    assert all(reads[span.layer, span.group].end_ns <= span.start_ns for span in ran)
    if settings.schedule != "early":
        assert set(reads) == set(wanted)
    assert hazards(trace) == []


@given(cases())
def test_bytes_and_work_are_what_was_put_in(case: Case) -> None:
    made, asked, settings = case
    found = simulate(*case)
    trace, times = found.trace, service_times_of(made, asked, settings.group_size, settings.banks)
    experts, size = asked.model.experts, settings.group_size
    records = [min(size, experts - first) for first in range(0, experts, size)]
    reads = trace.select("storage")
    assert all(span.bytes == records[span.group or 0] * asked.model.expert_bytes for span in reads)
    assert found.bytes_read == sum(span.bytes or 0 for span in reads)
    needed = sum(records[group] * asked.model.expert_bytes for times in times.passes for group in times.needed)
    assert (found.bytes_needed, found.bytes_speculative) == (needed, found.bytes_read - needed)
    run = sum(span.duration_ns for span in trace.select("expert"))
    assert run == sum(sum(layer.runs_ns.values()) for layer in times.passes)
    dense = sum(span.duration_ns for span in trace.select("dense"))
    assert dense == times.lead_ns + sum(layer.non_expert_ns for layer in times.passes)
    waits = sum(span.duration_ns for span in trace.select("wait"))
    assert trace.request_ns == run + dense + waits + sum(layer.rest_ns for layer in times.passes)


@given(cases())
def test_no_unit_does_two_things_at_once_and_no_more_than_q_reads_are_outstanding(case: Case) -> None:
    found = simulate(*case)
    trace, settings = found.trace, found.settings
    assert overlap([*trace.select("dense"), *trace.select("expert"), *trace.select("wait")]) <= 1
    assert overlap(trace.select("storage")) <= settings.queue_depth
    for bank in range(settings.banks):
        assert overlap([s for unit in ("storage", "expert") for s in trace.select(unit) if s.bank == bank]) <= 1


@given(cases())
def test_over_no_stretch_come_more_bytes_than_the_bandwidth(case: Case) -> None:
    """Bytes of the reads that lie in it altogether; at most as fast as with all queue places in use."""
    made, _, settings = case
    reads = simulate(*case).trace.select("storage")
    rates = [number.value / 1e9 for number in made.read_bandwidths]
    for start in {span.start_ns for span in reads}:
        for end in {span.end_ns for span in reads}:
            inside = [span for span in reads if span.start_ns >= start and span.end_ns <= end]
            if inside:
                most = rates[min(len(rates), settings.queue_depth) - 1] * (end - start)
                assert sum(span.bytes or 0 for span in inside) <= most + 1e-6
    for span in reads:
        lone = overlap([other for other in reads if other.start_ns < span.end_ns and other.end_ns > span.start_ns]) == 1
        assert (span.bytes or 0) <= (rates[0] if lone else max(rates)) * span.duration_ns + 1e-6


@given(cases(schedules=("on-demand", "after-routing"), carry=False))
def test_a_request_takes_no_less_than_its_work_its_reads_and_its_first_fill(case: Case) -> None:
    made, asked, settings = case
    found = simulate(*case)
    times = service_times_of(made, asked, settings.group_size, settings.banks)
    fastest = max(number.value for number in made.read_bandwidths) / 1e9
    least = times.lead_ns
    for layer in times.passes:
        work = sum(layer.runs_ns.values())
        read = sum(layer.read_bytes[group] for group in layer.needed) / fastest
        last = layer.runs_ns[layer.needed[-1]] if layer.needed else 0
        least += layer.non_expert_ns + layer.rest_ns + max(work, read + last)
    assert found.trace.request_ns >= least - 1e-6


def slower(one: Simulation, other: Simulation) -> bool:
    """Whether ``one`` takes longer than ``other``, by more than reads' ends are rounded up."""
    return one.trace.request_ns > other.trace.request_ns + len(other.trace.select("storage"))


@given(cases())
def test_reading_ahead_never_takes_longer_than_on_demand(case: Case) -> None:
    """Whatever Q and B, if every group that is read has routes. Proof: where neither non-expert work nor a group is
    executed, the executor waits for a group that is being read, so bytes flow, no slower than a lone read's, or a
    latency passes. All these times together are what on demand takes one after the other."""
    made, asked, settings = case
    found = simulate(*case)
    if not found.bytes_speculative:
        assert not slower(found, simulate(made, asked, replaced(settings, "on-demand")))


@given(cases(schedules=("early",), carry=False))
def test_with_one_queue_place_early_is_no_later_than_after_routing(case: Case) -> None:
    """Then each read takes its own time, and every time of the recurrence is a maximum of earlier ones: that of early
    lacks a term. With more places reads share, and one that begins early may hold up another."""
    made, asked, settings = case
    lone = Settings(settings.group_size, settings.banks, 1)
    early = simulate(made, asked, lone)
    if not early.bytes_speculative:
        assert not slower(early, simulate(made, asked, replaced(lone, "after-routing")))


@pytest.mark.parametrize("schedule", ["early", "after-routing"])
def test_an_unneeded_read_may_cost_what_early_reading_gains(schedule: str) -> None:
    """Why the claim above asks for routes everywhere: group 0 is read for nothing and holds the only bank."""
    found = simulate(device(), workload([0, 0, 0, 0, 3]), Settings(4, 1, 1, schedule))
    assert found.bytes_speculative == (2 * 400 if schedule == "early" else 0)
    # T^ne ends at 80 in each layer; the read of 400 bytes, begun at 0, at 400
    begins = {"early": 400, "after-routing": 80}
    assert found.trace.request_ns == 32 + 2 * (begins[schedule] + 100 + 7 + 3)


def replaced(settings: Settings, schedule: str) -> Settings:
    return Settings(settings.group_size, settings.banks, settings.queue_depth, schedule)


def overlap(spans: Sequence[Span]) -> int:
    """Most spans that are under way at one time; touching isn't."""
    lasting = [span for span in spans if span.duration_ns]
    edges = sorted([*((span.start_ns, 1) for span in lasting), *((span.end_ns, -1) for span in lasting)])
    depth, most = 0, 0
    for _, change in edges:
        depth += change
        most = max(most, depth)
    return most
