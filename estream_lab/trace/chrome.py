"""Export to the Trace Event Format that chrome://tracing and ui.perfetto.dev open.

Source: "Trace Event Format", Google (complete events `X`, metadata events `M`). Times are microseconds as floating
point there: relative to the request's start they keep every nanosecond, absolute ones would not. Each event also
carries its exact integers in `args`.
"""

import json
from pathlib import Path
from typing import Any

from estream_lab.trace.atomic import write_atomically
from estream_lab.trace.schema import Trace
from estream_lab.trace.tracks import Track, tracks


def write_chrome(trace: Trace, path: Path | str) -> None:
    """Write `trace` as Chrome JSON. Provenance, clock origins and anchors go to `otherData`."""
    lines = tracks(trace)
    processes = list(dict.fromkeys((line.lane, line.clock, line.request) for line in lines))
    events: list[dict[str, Any]] = []
    for pid, (lane, clock, request) in enumerate(processes, 1):
        events.append(_metadata("process_name", pid, 0, name=f"{lane} ({clock} clock), request {request}"))
    for tid, line in enumerate(lines, 1):
        pid = processes.index((line.lane, line.clock, line.request)) + 1
        events.append(_metadata("thread_name", pid, tid, name=line.name))
        events.append(_metadata("thread_sort_index", pid, tid, sort_index=tid))
        events.extend(_events(line, pid, tid))
    document = {
        "displayTimeUnit": "ns",
        "otherData": {
            "provenance": trace.provenance,
            # as text: JavaScript's numbers end at 2^53
            "origin_ns": {line.clock: str(line.origin_ns) for line in lines},
            "anchors": [
                {"clock": a.clock, "clock_ns": str(a.clock_ns), "host_ns": str(a.host_ns)} for a in trace.anchors
            ],
        },
        "traceEvents": events,
    }
    write_atomically(path, json.dumps(document, allow_nan=False).encode("ascii") + b"\n")


def _metadata(kind: str, pid: int, tid: int, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": args}


def _events(line: Track, pid: int, tid: int) -> list[dict[str, Any]]:
    return [
        {
            "ph": "X",
            "name": span.name,
            "cat": span.unit,
            "pid": pid,
            "tid": tid,
            "ts": (span.start_ns - line.origin_ns) / 1000,
            "dur": span.duration_ns / 1000,
            "args": {"start_ns": span.start_ns - line.origin_ns, "duration_ns": span.duration_ns, **span.details()},
        }
        for span in line.spans
    ]
