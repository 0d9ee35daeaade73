"""Which spans may share a line of a drawing or an export: those that never overlap."""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from estream_lab.trace.schema import UNITS, Span, Trace


@dataclass(frozen=True, slots=True)
class Track:
    """A line of spans that do not overlap, in order of start. `origin_ns` is subtracted from times that are shown."""

    lane: str
    clock: str
    request: int
    unit: str
    index: int
    origin_ns: int
    spans: tuple[Span, ...]

    @property
    def name(self) -> str:
        """The unit, with the track's number where the unit needs several (`storage`, `storage 2`, ...)."""
        return self.unit if self.index == 0 else f"{self.unit} {self.index + 1}"


def assign_tracks(spans: Sequence[Span]) -> list[int]:
    """A track number for each span, such that no two of one track overlap (touching is allowed).

    Greedy in order of start, always the lowest free number: uses as many tracks as spans overlap at the worst moment.
    """
    numbers = [0] * len(spans)
    running: list[tuple[int, int]] = []  # (end, track), earliest end first
    free: list[int] = []
    used = 0
    for i in sorted(range(len(spans)), key=lambda j: (spans[j].start_ns, spans[j].end_ns)):
        while running and running[0][0] <= spans[i].start_ns:
            heapq.heappush(free, heapq.heappop(running)[1])
        if free:
            numbers[i] = heapq.heappop(free)
        else:
            numbers[i], used = used, used + 1
        heapq.heappush(running, (spans[i].end_ns, numbers[i]))
    return numbers


def origin_ns(spans: Iterable[Span]) -> int:
    """Where time 0 of a drawing lies: the first request's start, or the first span's where there is no request."""
    kept = list(spans)
    starts = [span.start_ns for span in kept if span.unit == "request"] or [span.start_ns for span in kept]
    return min(starts, default=0)


def tracks(trace: Trace) -> tuple[Track, ...]:
    """All spans of a trace on tracks: by lane, clock, request and unit, and by number where spans of a unit overlap.

    Each clock has its own origin. Units come in the order request, dense, expert, wait, storage, then others by name.
    """
    origins = {clock: origin_ns(s for s in trace.spans if s.clock == clock) for clock in {s.clock for s in trace.spans}}
    units: dict[tuple[str, str, int, str], list[Span]] = {}
    for span in trace.spans:
        units.setdefault((span.lane, span.clock, span.request, span.unit), []).append(span)
    result = []
    for lane, clock, request, unit in sorted(units, key=_position):
        spans = units[lane, clock, request, unit]
        numbers = assign_tracks(spans)
        for index in range(max(numbers) + 1):
            line = sorted(
                (s for s, n in zip(spans, numbers, strict=True) if n == index), key=lambda s: (s.start_ns, s.end_ns)
            )
            result.append(Track(lane, clock, request, unit, index, origins[clock], tuple(line)))
    return tuple(result)


def _position(key: tuple[str, str, int, str]) -> tuple[str, str, int, int, str]:
    lane, clock, request, unit = key
    return lane, clock, request, UNITS.index(unit) if unit in UNITS else len(UNITS), unit
