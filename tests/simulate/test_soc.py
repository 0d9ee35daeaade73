"""A request on a made-up device, worked out by hand, and what its summary says."""

from dataclasses import replace

import pytest

from estream_lab.errors import EStreamError
from estream_lab.simulate import timetable
from estream_lab.simulate.device import load_device
from estream_lab.simulate.models import MODELS
from estream_lab.simulate.soc import Settings, read_ns, service_times_of, simulate
from estream_lab.simulate.workload import Workload
from estream_lab.trace import npu_idle, storage_idle

from .devices import MODEL, device, workload

LOADS = [2, 0, 4, 2, 2]


def test_service_times_by_hand() -> None:
    """T^ne = (20·4 + 4·4·5)/2; X = 5 + 6·rows/12; a lone read has 1 byte/ns; 3 ns for each of two banks."""
    times = service_times_of(device(), workload(LOADS), 2, banks=2)
    (first, second) = times.passes
    assert first == replace(second, layer=0)
    assert first.non_expert_ns == 80
    assert dict(first.runs_ns) == {0: 6, 1: 8, 2: 6}
    assert (first.read_bytes, first.reads_ns, first.rest_ns) == ((200, 200, 100), (200, 200, 100), 6)
    assert dict(first.rows) == {0: 2, 1: 6, 2: 2}
    assert (times.lead_ns, times.tail_ns) == (32, 0)


def test_a_request_by_hand() -> None:
    """Two reads of 200 bytes share 2 bytes/ns until 232; then the last one has 1 byte/ns alone."""
    found = simulate(device(), workload(LOADS), Settings(2, 2, 2))
    first = timetable(found.trace)
    assert (first.a, first.d) == ((32, 32, 238), (232, 232, 338))
    assert (first.s, first.f) == ((232, 238, 338), (238, 246, 344))
    assert found.trace.request_ns == 32 + 2 * (344 - 32 + 6)
    assert (found.storage_idle, found.npu_idle) == (storage_idle(found.trace), npu_idle(found.trace))
    assert found.storage_idle == pytest.approx(1 - 2 * 300 / 668)
    assert found.npu_idle == pytest.approx(1 - (32 + 2 * (80 + 20)) / 668)
    assert sum(found.bubbles["storage"].values()) == pytest.approx(found.storage_idle)


def test_bytes_and_memory() -> None:
    """Group 0 has no routes but is read early; 0.5 bytes for each of 2·10 + 8 + 22 weights, 6 for each token."""
    found = simulate(device(), workload([0, 0, 1, 1, 1]), Settings(2, 2, 1))
    assert (found.bytes_read, found.bytes_needed, found.bytes_speculative) == (2 * 500, 2 * 300, 2 * 200)
    assert (found.arena_bytes, found.other_bytes) == (400, 25 + 24 + 1000)
    assert found.peak_bytes == 1449
    row = found.to_json()
    assert row["tokens_per_second"] == pytest.approx(4 / found.seconds)
    assert (row["bytes_speculative"], row["peak_bytes"], row["model"], row["device"]) == (
        400,
        1449,
        "made-up",
        "made-up",
    )


def test_a_request_without_routes_reads_early_and_runs_nothing() -> None:
    found = simulate(device(), workload([0] * 5), Settings(2, 2, 2))
    assert (found.bytes_needed, found.bytes_speculative) == (0, 2 * 400)
    assert simulate(device(), workload([0] * 5), Settings(2, 2, 2, "after-routing")).bytes_read == 0


def test_provenance_says_what_was_simulated_and_how_sure_it_is() -> None:
    facts = simulate(device(), workload(LOADS), Settings(2, 2, 2)).trace.provenance
    expected = {
        "kind": "simulated (assumed profile, scope nothing real)", "lane": "simulator", "machine": "a made-up device",
        "device": "made-up", "model": "made-up", "routes": "made up", "tokens": 4, "group_size": 2, "banks": 2,
        "queue_depth": 2, "schedule": "early", "carry_over": False,
    }  # fmt: skip
    assert facts | expected == facts
    olmoe = simulate(load_device("phone"), Workload.synthetic(MODELS["olmoe"], 16), Settings(8, 3, 2))
    assert olmoe.to_json()["kind"] == "simulated (fitted profile, outside its scope OLMoE at 1,024 tokens, G=8)"


def test_carried_over_reads_go_on_while_banks_are_synchronised() -> None:
    made = device(bank_synchronisation=50.0)
    plain = simulate(made, workload(LOADS), Settings(2, 2, 2))
    carried = simulate(made, workload(LOADS), Settings(2, 2, 2, carry_over=True))
    assert carried.seconds < plain.seconds and carried.bytes_read == plain.bytes_read
    ends = {end.layer: end.start_ns for end in plain.trace.select("plan", name="ended")}
    assert plain.trace.select("dense", 1)[0].start_ns == ends[0] + 100
    reads = carried.trace.select("storage", 1)
    assert reads[0].start_ns < carried.trace.select("dense", 1)[0].start_ns
    four = simulate(made, workload(LOADS), Settings(2, 4, 2, carry_over=True))  # more banks than groups may help
    assert four.settings.banks == 4


def test_no_more_queue_places_than_banks() -> None:
    found = simulate(device(), workload(LOADS), Settings(2, 1, 2))
    assert found.settings.queue_depth == 1 and found.trace.provenance["queue_depth"] == 1


def test_reads_by_how_many_are_outstanding() -> None:
    made = device(1e9, 2e9, read_latency=3.0)
    assert [read_ns(made, 100, depth) for depth in (1, 2, 3)] == [103, 103, 153]


def test_what_cannot_be_simulated_is_told() -> None:
    asked = workload(LOADS)
    with pytest.raises(EStreamError, match="has 3 groups of 2, so 4 banks are never all used: choose 3 or fewer"):
        simulate(device(), asked, Settings(2, 4, 2))
    with pytest.raises(EStreamError, match="groups of 6"):
        simulate(device(), asked, Settings(6, 1, 1))
    with pytest.raises(EStreamError, match="0 banks"):
        simulate(device(), asked, Settings(2, 0, 1))
    with pytest.raises(EStreamError, match="B=1 and Q=0"):
        simulate(device(), asked, Settings(2, 1, 0))
    with pytest.raises(EStreamError, match="unknown schedule 'late'"):
        simulate(device(), asked, Settings(2, 1, 1, "late"))
    with pytest.raises(EStreamError, match="only the early schedule"):
        simulate(device(), asked, Settings(2, 1, 1, "on-demand", carry_over=True))


def test_layers_and_lead_are_of_the_model() -> None:
    assert len(service_times_of(device(), workload([1] * 5, model=replace(MODEL, layers=3)), 5, 1).passes) == 3
