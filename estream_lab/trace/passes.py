"""Passes through layers, read off a streamed trace: when each began, knew its routes and had run them."""

from dataclasses import dataclass

from estream_lab.errors import EStreamError
from estream_lab.trace.schema import Span, Trace


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass through a layer, in ns of the trace's clock.

    Attributes:
        layer: its number; a prompt in chunks passes through a layer several times.
        after_ns: the pass before this one has ended, or the trace begins.
        begin_ns: its non-expert work, or the first read that starts with it, begins.
        routed_ns: its routes are known: T^ne after its begin.
        end_ns: its last group has run, reads that turned out to be unneeded have ended, its banks are given up.
        rows: of each group with routes, how many.
        runs: the executions, in order.
    """

    layer: int
    after_ns: int
    begin_ns: int
    routed_ns: int
    end_ns: int
    rows: dict[int, int]
    runs: tuple[Span, ...]


def passes(trace: Trace) -> tuple[Pass, ...]:
    """Every pass of every request of a streamed trace, in order.

    Raises:
        EStreamError: a trace that doesn't say what was routed (unit "plan").
    """
    routed: dict[tuple[int, int], dict[int, int]] = {}
    for span in trace.select("plan", name="routed"):
        if span.layer is not None and span.group is not None:
            routed.setdefault((span.start_ns, span.layer), {})[span.group] = span.rows or 0
    if not routed:
        raise EStreamError("this trace doesn't say what was routed in which layer: record a streamed request")
    found: list[Pass] = []
    keys = sorted(routed)
    untils = [*(known for known, _ in keys[1:]), max(span.end_ns for span in trace.spans)]
    for (known, layer), until in zip(keys, untils, strict=True):
        since = found[-1].end_ns if found else trace.spans[0].start_ns
        found.append(_pass(trace, layer, (since, known, until), routed[known, layer]))
    return tuple(found)


def _pass(trace: Trace, layer: int, times: tuple[int, int, int], rows: dict[int, int]) -> Pass:
    """``times``: the end of the pass before, when the routes were known, and when the next pass's are."""
    since, known, until = times
    dense = [span.start_ns for span in trace.select("dense", layer) if since <= span.start_ns <= known]
    work = min(dense, default=known)
    reads = [span.start_ns for span in trace.select("storage", layer) if since < span.start_ns < work]
    runs = tuple(span for span in trace.select("expert", layer) if known <= span.start_ns < until)
    waits = [span.end_ns for span in trace.select("wait", layer) if known <= span.start_ns < until]
    end = max([known, *waits, *(span.end_ns for span in runs)])
    ended = [span.start_ns for span in trace.select("plan", layer, "ended") if end <= span.start_ns <= until]
    return Pass(layer, since, min([work, *reads]), known, min(ended, default=end), rows, runs)
