"""Passes through layers, out of spans."""

import pytest

from estream_lab.errors import EStreamError
from estream_lab.trace import Span, Trace
from estream_lab.trace.passes import passes


def span(unit: str, name: str, start: int, end: int, **fields: int) -> Span:
    return Span("host", "host", unit, name, start, end - start, **fields)


TRACE = Trace((
    span("request", "prefill", 0, 60),
    span("dense", "embedding", 0, 1),
    span("dense", "attention", 3, 8, layer=0),
    span("storage", "read", 2, 6, layer=0, group=0, bank=0),  # the lane begins a layer just before its attention
    span("dense", "router", 8, 9, layer=0),
    span("plan", "routed", 10, 10, layer=0, group=0, rows=4),
    span("plan", "routed", 10, 10, layer=0, group=2, rows=1),
    span("expert", "expert group", 11, 14, layer=0, group=0, bank=0),
    span("storage", "read", 12, 20, layer=1, group=0, bank=1),  # ahead
    span("expert", "expert group", 15, 17, layer=0, group=2, bank=0),
    span("wait", "wait for group", 17, 19, layer=0),
    span("dense", "attention", 22, 30, layer=1),
    span("plan", "routed", 31, 31, layer=1, group=0, rows=5),
    span("expert", "expert group", 32, 35, layer=1, group=0, bank=1),
    span("plan", "ended", 36, 36, layer=1),
    span("dense", "attention", 40, 44, layer=0),  # a second chunk
    span("plan", "routed", 45, 45, layer=0, group=1, rows=2),
    span("expert", "expert group", 46, 49, layer=0, group=1, bank=0),
    span("dense", "head", 52, 60),
))  # fmt: skip


def test_passes_are_told_in_order_with_their_times() -> None:
    first, second, third = passes(TRACE)
    assert (first.layer, first.after_ns, first.begin_ns, first.routed_ns, first.end_ns) == (0, 0, 2, 10, 19)
    assert first.rows == {0: 4, 2: 1}
    assert [run.group for run in first.runs] == [0, 2]
    assert (second.layer, second.after_ns, second.begin_ns, second.routed_ns, second.end_ns) == (1, 19, 22, 31, 36)
    assert (third.layer, third.after_ns, third.begin_ns, third.routed_ns, third.end_ns) == (0, 36, 40, 45, 49)
    assert [run.group for run in third.runs] == [1]


def test_a_trace_without_routes_has_no_passes() -> None:
    with pytest.raises(EStreamError, match="doesn't say what was routed"):
        passes(Trace((span("dense", "attention", 0, 3, layer=0),)))
