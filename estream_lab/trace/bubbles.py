"""Bubbles: every stretch in which storage or compute stood still, and what it waited for.

The shares of a unit's bubbles add up to its idle share (`trace.metrics`). Causes are told from spans alone, so that a
measured, an emulated and a simulated trace are read in the same way.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from estream_lab.errors import EStreamError
from estream_lab.trace.metrics import COMPUTE_UNITS
from estream_lab.trace.passes import Pass, passes
from estream_lab.trace.schema import Span, Trace

LAYER = "layer boundary"
ROUTES = "routes"
BANK = "bank"
CHOICE = "schedule's choice"
DATA = "data"
UNNEEDED = "unneeded read"
DONE = "nothing left"
OWN = "hand-over"

CAUSES = {
    LAYER: "the layer that comes next has not begun, and nothing is read ahead",
    ROUTES: "the next read waits for the routes of its layer",
    BANK: "every bank is taken: the next read waits for one to be given up",
    CHOICE: "a bank is free and the routes are known, but the schedule asks for nothing yet",
    DATA: "the executor stands before a group that is not in memory",
    UNNEEDED: "the layer ends only when reads that turned out to be unneeded have ended",
    DONE: "nothing is left to read in this request",
    OWN: "nothing stood in the way: threads hand over, or do what no span tells",
}
"""What storage or compute waits for, and what that means."""


@dataclass(frozen=True, slots=True)
class Bubble:
    """From ``start_ns`` to ``end_ns`` the unit, "storage" or "compute", stood still for ``cause``, one of `CAUSES`."""

    unit: str
    start_ns: int
    end_ns: int
    cause: str

    @property
    def duration_ns(self) -> int:
        """Its length in ns."""
        return self.end_ns - self.start_ns


def bubbles(trace: Trace, banks: int | None = None) -> tuple[Bubble, ...]:
    """Every bubble of a streamed trace, storage's first, each unit's in order of time.

    Storage waits for what the read that ends the stretch waited for, in this order: its layer's begin (in a trace that
    reads ahead only while a bank is free), a bank while all are taken, its layer's routes, else the schedule's choice.
    What follows the last event before the read is hand-over. A bank is taken from its read's start until its group has
    run, or turned out to have no routes; one whose group is kept for later can be given up and counts as free.

    Compute waits for data where the executor did, and for the layer boundary between a layer's last group and the next
    layer's begin.

    Args:
        trace: of one or more requests, on a clock that carries time.
        banks: B; the trace's provenance says it otherwise.

    Raises:
        EStreamError: a trace without time, routes, or a number of banks.
    """
    count = banks if banks is not None else trace.provenance.get("banks")
    if not isinstance(count, int):
        raise EStreamError("this trace doesn't say how many banks there were: give their number")
    if any(span.clock == "order" for span in trace.spans):
        raise EStreamError("this trace numbers steps without time, so it has no bubbles: use a timed lane")
    found = passes(trace)
    storage = _Storage(trace, found, count)
    still = [bubble for stretch in _idle(trace, ("storage",)) for bubble in storage.causes(*stretch)]
    executor = _Executor(trace, found)
    compute = [bubble for start, end, _ in _idle(trace, COMPUTE_UNITS) for bubble in executor.causes(start, end)]
    return tuple(_joined([*still, *compute]))


def bubble_shares(trace: Trace, found: Sequence[Bubble] | None = None) -> dict[str, dict[str, float]]:
    """Of "storage" and "compute": the share of the requests' time of each cause that occurs, in the order of `CAUSES`.

    ``found`` are the trace's bubbles, where they are known already. Raises `EStreamError` as `bubbles`.
    """
    lengths: dict[str, dict[str, int]] = {unit: dict.fromkeys(CAUSES, 0) for unit in ("storage", "compute")}
    for bubble in bubbles(trace) if found is None else found:
        lengths[bubble.unit][bubble.cause] += bubble.duration_ns
    total = trace.request_ns
    return {
        unit: {cause: length / total for cause, length in causes.items() if length} for unit, causes in lengths.items()
    }


class _Storage:
    """What reads wait for in one trace."""

    def __init__(self, trace: Trace, found: tuple[Pass, ...], banks: int) -> None:
        self._reads = trace.select("storage")
        self._passes, self._banks = found, banks
        ends = [span.end_ns for unit in ("storage", "expert") for span in trace.select(unit)]
        self._events = sorted([*ends, *(at for each in found for at in (each.begin_ns, each.routed_ns))])
        self._taken = list(self._tenures(trace))
        self._ahead = any(span.start_ns < self._pass(span).after_ns for span in self._reads)

    def causes(self, start: int, end: int, last: bool) -> Iterator[Bubble]:
        """The bubbles of one idle stretch; ``last``: its request ends with it."""
        following = next((span for span in self._reads if span.start_ns == end), None)
        if last or following is None:
            yield Bubble("storage", start, end, DONE)
            return
        layer = self._pass(following)
        ready = self._events[bisect_right(self._events, end) - 1]
        moments = {layer.begin_ns, layer.routed_ns, *(at for tenure in self._taken for at in tenure)}
        cuts = sorted({start, end, *(at for at in (*moments, ready) if start < at < end)})
        for at, until in pairwise(cuts):
            cause = OWN if at >= ready else self._cause(at, following, layer)
            yield Bubble("storage", at, until, cause)

    def _cause(self, at: int, following: Span, layer: Pass) -> str:
        full = sum(begin <= at < end for begin, end in self._taken) >= self._banks
        if at < layer.begin_ns <= following.start_ns:
            return BANK if full and self._ahead else LAYER
        if full:
            return BANK
        return ROUTES if at < layer.routed_ns <= following.start_ns else CHOICE

    def _pass(self, read: Span) -> Pass:
        """The pass that a read was for: the first through its layer that ends after the read began."""
        mine = [each for each in self._passes if each.layer == read.layer]
        return next((each for each in mine if each.end_ns > read.start_ns), mine[-1] if mine else self._passes[-1])

    def _tenures(self, trace: Trace) -> Iterator[tuple[int, int]]:
        """(from, to) of every bank that is taken."""
        runs = [span for span in trace.select("expert") if span.bank is not None]
        served = set()
        for read in self._reads:
            place = (read.layer, read.group, read.bank)
            layer = self._pass(read)
            run = next((run for run in layer.runs if (run.layer, run.group, run.bank) == place), None)
            served.add(run)
            yield read.start_ns, run.end_ns if run is not None else max(read.end_ns, layer.routed_ns)
        yield from ((run.start_ns, run.end_ns) for run in runs if run not in served)


class _Executor:
    """What computation waits for in one trace."""

    def __init__(self, trace: Trace, found: tuple[Pass, ...]) -> None:
        self._waits = trace.select("wait")
        after = [*(each.begin_ns for each in found[1:]), trace.windows[-1][1]]
        self._between = [(each.end_ns, begin) for each, begin in zip(found, after, strict=True)]
        self._edges = {at for span in self._waits for at in (span.start_ns, span.end_ns)}
        self._edges |= {at for pair in self._between for at in pair}

    def causes(self, start: int, end: int) -> Iterator[Bubble]:
        """The bubbles of one stretch without computation."""
        for at, until in pairwise(sorted({start, end, *(at for at in self._edges if start < at < end)})):
            wait = next((span for span in self._waits if span.start_ns <= at < span.end_ns), None)
            if wait is not None:
                cause = DATA if wait.group is not None else UNNEEDED
            else:
                cause = LAYER if any(begin <= at < stop for begin, stop in self._between) else OWN
            yield Bubble("compute", at, until, cause)


def _idle(trace: Trace, units: tuple[str, ...]) -> Iterator[tuple[int, int, bool]]:
    """(from, to, whether its request ends with it) of every stretch of a request without a span of these units."""
    busy = sorted((span.start_ns, span.end_ns) for span in trace.spans if span.unit in units)
    for begin, end in trace.windows:
        reach = begin
        for start, stop in busy:
            if reach < min(start, end):
                yield reach, min(start, end), start >= end
            reach = max(reach, stop)
        if reach < end:
            yield reach, end, True


def _joined(pieces: list[Bubble]) -> Iterator[Bubble]:
    """Neighbours of one unit and cause as one."""
    last: Bubble | None = None
    for piece in pieces:
        if last is not None and (last.unit, last.end_ns, last.cause) == (piece.unit, piece.start_ns, piece.cause):
            last = Bubble(last.unit, last.start_ns, piece.end_ns, last.cause)
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last
