"""The simulator against the real lane: a measured request, replayed from its own times, is as long as it was."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.experts.schedule import POLICIES
from estream_lab.simulate import both_replays, replayed, shared_bandwidth
from estream_lab.simulate.soc import Settings, simulate
from estream_lab.trace import Trace
from tests.stores import synthetic_store

from .devices import device, workload

BANDWIDTH = 4e6
"""Bytes/s: reads take about as long as the work, so that it shows when they start."""

TOLERANCE = 0.1
"""Of the request's time: what is measured beside other work is a tenth of it off at most."""

FAULT = 0.05
"""Of the request's time: what a schedule or banks that are ignored make, at least, however slow the work is."""

Run = Callable[..., Trace]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Run:
    store = synthetic_store(tmp_path_factory.mktemp("agreement"))

    def run(schedule: str, banks: int, **settings: object) -> Trace:
        with PrefillEngine.open(
            store, schedule=schedule, group_size=2, banks=banks, queue_depth=2, read_bandwidth=BANDWIDTH, **settings
        ) as engine:
            engine.prefill(list(range(64)))  # compiles
            return engine.prefill(list(range(64))).trace

    return run


def distance(simulated: Trace, real: Trace) -> float:
    return simulated.request_ns / real.request_ns - 1


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize("banks", [1, 2, 5])
def test_a_measured_request_takes_as_long_when_replayed(measured: Run, schedule: str, banks: int) -> None:
    real = measured(schedule, banks)
    found = replayed(real)
    assert abs(distance(found, real)) < TOLERANCE
    for decided in (("plan", None, "issued"), ("expert", None, None)):
        order = [[(span.layer, span.group) for span in trace.select(*decided)] for trace in (found, real)]
        assert order[0] == order[1]
    sizes = [sorted((span.layer, span.group, span.bytes) for span in each.select("storage")) for each in (found, real)]
    assert sizes[0] == sizes[1]


def test_a_carried_over_request_too(measured: Run) -> None:
    real = measured("early", 2, carry_over=True)
    assert abs(distance(replayed(real), real)) < TOLERANCE


def test_a_schedule_that_is_ignored_is_seen(measured: Run) -> None:
    real = measured("on-demand", 5)
    told = Trace(real.spans, {**real.provenance, "schedule": "early"})
    assert distance(replayed(told), replayed(real)) < -FAULT


def test_banks_that_are_ignored_are_seen(measured: Run) -> None:
    real = measured("early", 1)
    told = Trace(real.spans, {**real.provenance, "banks": 5})
    assert distance(replayed(told), replayed(real)) < -FAULT


@pytest.mark.parametrize("schedule", POLICIES)
@pytest.mark.parametrize("carry_over", [False, True])
def test_a_simulated_request_replayed_is_itself(schedule: str, carry_over: bool) -> None:
    """From the times that its reads took to the last span, and from its storage's bandwidth as long."""
    settings = Settings(2, 2, 2, schedule, carry_over and schedule == "early")
    found = simulate(device(1e9, 1e9), workload([2, 1, 4, 2, 2], [0, 0, 3, 3, 2]), settings).trace
    assert set(replayed(found).spans) == set(found.spans)
    again = replayed(found, shared_bandwidth(found))
    assert again.request_ns == pytest.approx(found.request_ns, abs=len(found.spans))


def test_what_cannot_be_replayed_by_name_is_told() -> None:
    trace = simulate(device(), workload([1] * 5), Settings(2, 2, 2)).trace
    for absent in ("schedule", "banks", "queue_depth"):
        facts = {name: value for name, value in trace.provenance.items() if name != absent}
        with pytest.raises(EStreamError, match="doesn't say schedule, banks and queue depth"):
            replayed(Trace(trace.spans, facts))
    for name, value in (("schedule", "popular"), ("retention", "first")):
        with pytest.raises(EStreamError, match=f"{value}.*: only the published schedules"):
            replayed(replace(trace, provenance={**trace.provenance, name: value}))


def test_both_replays_are_those_of_own_times_and_of_a_shared_bandwidth(measured: Run) -> None:
    real = measured("early", 2)
    assert both_replays(real) == {"own times": replayed(real), "shared": replayed(real, shared_bandwidth(real))}
