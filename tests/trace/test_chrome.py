import json
from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

from estream_lab.trace import Span, Trace, write_chrome

from .traces import TRACES


def read(trace: Trace, factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = factory.getbasetemp() / "chrome.json"
    write_chrome(trace, path)
    document: dict[str, Any] = json.loads(path.read_text())
    return document


@given(trace=TRACES)
def test_every_span_is_found_with_its_exact_time(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> None:
    document = read(trace, tmp_path_factory)
    origins = {clock: int(value) for clock, value in document["otherData"]["origin_ns"].items()}
    process = {
        e["pid"]: e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name" and e["ph"] == "M"
    }
    found: Counter[tuple[Any, ...]] = Counter()
    for event in document["traceEvents"]:
        if event["ph"] == "X":
            lane, clock = process[event["pid"]].removesuffix(")").split(" clock)")[0].split(" (")
            start = event["args"]["start_ns"] + origins[clock]
            found[
                lane,
                clock,
                event["cat"],
                event["name"],
                start,
                event["args"]["duration_ns"],
                event["args"].get("group"),
            ] += 1
    wanted = Counter((s.lane, s.clock, s.unit, s.name, s.start_ns, s.duration_ns, s.group) for s in trace.spans)
    assert found == wanted
    assert document["otherData"]["provenance"] == trace.provenance


@given(trace=TRACES)
def test_no_two_slices_of_a_thread_overlap(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> None:
    threads = defaultdict(list)
    for event in read(trace, tmp_path_factory)["traceEvents"]:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["args"]["start_ns"], event["args"]["duration_ns"]))
    for slices in threads.values():
        slices.sort()
        assert all(start + length <= after for (start, length), (after, _) in pairwise(slices))


def test_microseconds_keep_every_nanosecond_of_a_long_request(tmp_path_factory: pytest.TempPathFactory) -> None:
    up = 7 * 10**15  # the host has been up for 81 days, the request takes an hour
    late = up + 3_600_000_000_001
    trace = Trace(
        (
            Span("host", "host", "request", "prefill", up, 3_600_000_000_777),
            Span("host", "host", "storage", "read", late, 1),
        )
    )
    events = {e["name"]: e for e in read(trace, tmp_path_factory)["traceEvents"] if e["ph"] == "X"}
    assert (events["read"]["ts"], events["read"]["dur"]) == (3_600_000_000.001, 0.001)
    assert (events["prefill"]["ts"], round(events["prefill"]["dur"] * 1000)) == (0, 3_600_000_000_777)
