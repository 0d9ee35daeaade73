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
    moves = sorted(_moves(trace), key=lambda entry: entry[:2])
    for span in trace.select("plan", name="kept"):
        if not moves or span.start_ns <= moves[0][0]:  # later requests keep what this trace saw coming
            key, bank = _place(span)
            checker.keeps(key, bank)
    for at, _, move in moves:
        checker.observe(move, at)
    return checker.hazards


def _moves(trace: Trace) -> list[tuple[int, int, Move]]:
    """(time, rank, move): of things at one time, ends come before routes, and these before starts."""
    moves: list[tuple[int, int, Move]] = []
    issued: dict[tuple[GroupKey, int], list[int]] = {}
    for span in trace.select("plan", name="issued"):
        issued.setdefault(_place(span), []).append(span.start_ns)
    for span in trace.spans:
        if span.unit not in ("storage", "expert") or span.bank is None:
            continue
        key, bank = _place(span)
        read = span.unit == "storage"
        start = max((at for at in issued.get((key, bank), ()) if at <= span.start_ns), default=span.start_ns)
        moves.append((start, 4, Read(key, bank)) if read else (span.start_ns, 4, Run(key, bank)))
        moves.append((span.end_ns, 5 if not span.duration_ns else 0, Arrived(bank) if read else Completed(bank)))
    passes = _passes(trace)
    last = max((span.end_ns for span in trace.spans), default=0)
    for number, (at, layer, needed) in enumerate(passes):
        following = passes[number + 1][0] if number + 1 < len(passes) else last
        moves.append((at, 3, Routed(layer, needed)))
        ended = (span.start_ns for span in trace.select("plan", layer, "ended") if span.start_ns >= at)
        moves.append((min(ended, default=following), 2, End(layer)))
    return moves


def _passes(trace: Trace) -> list[tuple[int, int, tuple[int, ...]]]:
    """(time, layer, needed groups) of each time that a layer's routes became known."""
    passes: list[tuple[int, int, list[int]]] = []
    for span in trace.select("plan", name="routed"):
        key = GroupKey(span.layer if span.layer is not None else -1, span.group if span.group is not None else -1)
        if not passes or passes[-1][:2] != (span.start_ns, key.layer):
            passes.append((span.start_ns, key.layer, []))
        passes[-1][2].append(key.group)
    return [(at, layer, tuple(sorted(needed))) for at, layer, needed in passes]


def _place(span: Span) -> tuple[GroupKey, int]:
    if span.layer is None or span.group is None or span.bank is None:
        raise EStreamError(f"a span '{span.name}' of unit '{span.unit}' doesn't say its layer, group and bank")
    return GroupKey(span.layer, span.group), span.bank
