"""The hazard checker over a recorded trace: what the spans say happened, replayed in order of time."""

from estream_lab.errors import EStreamError
from estream_lab.experts.hazards import Hazard, HazardChecker
from estream_lab.experts.protocol import Arrived, Completed, End, GroupKey, Move, Read, Routed, Run
from estream_lab.trace import Span, Trace


def hazards(trace: Trace, banks: int | None = None, queue_depth: int | None = None) -> list[Hazard]:
    """Every hazard in a trace of one or more requests, in order of time.

    Args:
        trace: of any lane and clock that records reads, executions and (unit "plan") the routed groups by bank.
        banks, queue_depth: B and Q; the trace's provenance says them otherwise.

    Raises:
        EStreamError: a trace that doesn't say how many banks there were, or of a lane without banks.
    """
    count = banks if banks is not None else trace.provenance.get("banks")
    depth = queue_depth if queue_depth is not None else trace.provenance.get("queue_depth")
    if trace.provenance.get("schedule") == "resident":
        raise EStreamError("all experts were resident in this run, so there are no banks to check: use a streamed one")
    if not isinstance(count, int):
        raise EStreamError("this trace doesn't say how many banks there were: give their number")
    used = [span.bank for span in trace.spans if span.bank is not None]
    checker = HazardChecker(max([count, *(bank + 1 for bank in used)]), depth if isinstance(depth, int) else None)
    moves = sorted(_moves(trace), key=lambda entry: entry[:3])
    for span in trace.select("plan", name="kept"):
        if not moves or span.start_ns <= moves[0][0]:  # later requests keep what this trace saw coming
            key, bank = _place(span)
            checker.keeps(key, bank)
    for at, _, _, move in moves:
        checker.observe(move, at)
    return checker.hazards


ENDED, DECIDED, STARTED, NO_TIME = range(4)
"""Of things at one time: what ends comes first, then what was decided, in the order of its record, then what starts;
what takes no time ends after it has started."""


def _moves(trace: Trace) -> list[tuple[int, int, int, Move]]:
    """(time, rank, place in the record, move)."""
    moves: list[tuple[int, int, int, Move]] = []
    issued: dict[tuple[GroupKey, int], list[tuple[int, int]]] = {}
    for place, span in enumerate(trace.spans):
        if (span.unit, span.name) == ("plan", "issued"):
            issued.setdefault(_place(span), []).append((span.start_ns, place))
    for span in trace.spans:
        if span.unit not in ("storage", "expert") or span.bank is None:
            continue
        key, bank = _place(span)
        read = span.unit == "storage"
        if not read:
            moves.append((span.start_ns, STARTED, 0, Run(key, bank)))
        elif asked := [entry for entry in issued.get((key, bank), ()) if entry[0] <= span.start_ns]:
            at, place = max(asked)
            moves.append((at, DECIDED, place, Read(key, bank)))
        else:
            moves.append((span.start_ns, STARTED, 0, Read(key, bank)))
        ended = ENDED if span.duration_ns else NO_TIME
        moves.append((span.end_ns, ended, 0, Arrived(bank) if read else Completed(bank)))
    ends: dict[int | None, list[int]] = {}
    for place, span in enumerate(trace.spans):
        if (span.unit, span.name) == ("plan", "ended"):
            ends.setdefault(span.layer, []).append(place)
    passes = _passes(trace)
    for number, (at, place, layer, needed) in enumerate(passes):
        moves.append((at, DECIDED, place, Routed(layer, needed)))
        if (last := next((e for e in ends.get(layer, ()) if e > place), None)) is not None:
            moves.append((trace.spans[last].start_ns, DECIDED, last, End(layer)))
        elif number + 1 < len(passes):
            moves.append((passes[number + 1][0], DECIDED, -1, End(layer)))
        else:
            moves.append((max(span.end_ns for span in trace.spans), NO_TIME, 1, End(layer)))
    return moves


def _passes(trace: Trace) -> list[tuple[int, int, int, tuple[int, ...]]]:
    """(time, place in the record, layer, needed groups) of each time that a layer's routes became known."""
    passes: list[tuple[int, int, int, list[int]]] = []
    for place, span in enumerate(trace.spans):
        if (span.unit, span.name) != ("plan", "routed"):
            continue
        key = GroupKey(span.layer if span.layer is not None else -1, span.group if span.group is not None else -1)
        if not passes or (passes[-1][0], passes[-1][2]) != (span.start_ns, key.layer):
            passes.append((span.start_ns, place, key.layer, []))
        passes[-1][3].append(key.group)
    return [(at, place, layer, tuple(sorted(needed))) for at, place, layer, needed in passes]


def _place(span: Span) -> tuple[GroupKey, int]:
    if span.layer is None or span.group is None or span.bank is None:
        raise EStreamError(f"a span '{span.name}' of unit '{span.unit}' doesn't say its layer, group and bank")
    return GroupKey(span.layer, span.group), span.bank
