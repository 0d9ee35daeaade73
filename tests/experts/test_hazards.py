"""The hazard checker: every kind of collision is named with its two events, and an orderly run gives none."""

import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts.hazards import HazardChecker, HazardError
from estream_lab.experts.protocol import (
    Arrived,
    Begin,
    Completed,
    End,
    Failed,
    GroupKey,
    Move,
    Read,
    Reset,
    Routed,
    Run,
    Stop,
)
from estream_lab.experts.watch import hazards
from estream_lab.trace import Span, Trace

A, B, C, D = (GroupKey(0, group) for group in range(4))
NEXT = GroupKey(1, 0)
ROUTED = Routed(0, (0, 1))
ORDERLY: list[Move] = [
    Begin(0), Read(A, 0), Read(B, 1), Arrived(0), ROUTED, Run(A, 0), Arrived(1), Completed(0), Run(B, 1), Completed(1),
    End(0),
]  # fmt: skip


def watch(moves: list[Move], banks: int = 2, queue: int | None = 2) -> HazardChecker:
    checker = HazardChecker(banks, queue)
    for at, move in enumerate(moves, 1):
        checker.observe(move, at)
    return checker


def test_an_orderly_run_has_no_hazard() -> None:
    assert (
        watch([*ORDERLY, Begin(1), Read(NEXT, 0), Arrived(0), Routed(1, (0,)), Run(NEXT, 0), Completed(0)]).hazards
        == []
    )


COLLISIONS: dict[str, tuple[list[Move], int, int]] = {  # the moves, and the numbers of the two that collide
    "early reuse": ([Begin(0), Read(A, 0), Arrived(0), ROUTED, Run(A, 0), Read(B, 0)], 5, 6),
    "double owner": ([Begin(0), Read(A, 0), Read(B, 0)], 2, 3),
    "double home": ([Begin(0), Read(A, 0), Read(A, 1)], 2, 3),
    "queue overrun": ([Begin(0), Read(A, 0), Read(B, 1), Read(C, 2)], 2, 4),
    "useless read": ([Begin(0), ROUTED, Read(C, 0)], 2, 3),
    "reads ahead": ([Begin(0), Read(A, 0), Arrived(0), Read(B, 1), Read(C, 2), Arrived(1), Read(D, 0)], 1, 7),
    "early publish": ([Begin(0), Read(A, 0, 2), Arrived(0), ROUTED, Run(A, 0)], 2, 5),
    "wrong data": ([Begin(0), Read(A, 0), Arrived(0), ROUTED, Run(B, 0)], 2, 5),
    "bad data": ([Begin(0), ROUTED, Read(A, 0), Failed(0), Run(A, 0)], 4, 5),
    "before routing": ([Begin(0), Read(A, 0), Arrived(0), Run(A, 0)], 3, 4),
    "run twice": ([Begin(0), Read(A, 0), Arrived(0), ROUTED, Run(A, 0), Completed(0), Run(A, 0)], 5, 7),
    "no routes": ([Begin(0), Read(C, 0), Arrived(0), ROUTED, Run(C, 0)], 4, 5),
    "out of order": ([Begin(0), Read(A, 0), Read(B, 1), Arrived(0), Arrived(1), ROUTED, Run(B, 1), Completed(1),
                      Run(A, 0)], 7, 9),
    "two at once": ([Begin(0), Read(A, 0), Read(B, 1), Arrived(0), Arrived(1), ROUTED, Run(A, 0), Run(B, 1)], 7, 8),
    "never run": ([Begin(0), Read(A, 0), Arrived(0), ROUTED, Run(A, 0), Completed(0), End(0)], 4, 7),
    "still running": ([Begin(0), Read(A, 0), Arrived(0), Routed(0, (0,)), Run(A, 0), End(0)], 5, 6),
    "left behind": ([Begin(0), Read(A, 0), Routed(0, ()), End(0)], 2, 4),
    "not ended": ([Begin(0), Begin(1)], 1, 2),
    "start after the stop": ([Begin(0), Stop(), Read(A, 0)], 2, 3),
}  # fmt: skip


@pytest.mark.parametrize("kind", COLLISIONS)
def test_each_collision_is_named_with_its_two_events(kind: str) -> None:
    moves, first, second = COLLISIONS[kind]
    queue = None if kind == "reads ahead" else 2
    found = watch(moves, 3, queue).hazards
    assert [(hazard.kind, hazard.first.at, hazard.second.at) for hazard in found] == [(kind, first, second)]
    assert watch(moves[:-1], 3, queue).hazards == []
    assert str(found[0]).startswith(f"{kind}: ")


def test_a_stopped_run_may_not_leave_reads_or_executions_behind() -> None:
    found = watch([Begin(0), Read(A, 0), Stop(), Reset()]).hazards
    assert [(hazard.kind, hazard.first.at, hazard.second.at) for hazard in found] == [("left behind", 2, 4)]
    (running,) = watch([Begin(0), Read(A, 0), Arrived(0), Routed(0, (0,)), Run(A, 0), Stop(), Reset()]).hazards
    assert running.kind == "still running"


def test_a_strict_checker_raises_at_once_and_says_what_met_what() -> None:
    checker = HazardChecker(2, 2, strict=True)
    checker.observe(Read(A, 0), 10)
    sentence = (
        r"hazard, double owner: a read of group 1 of layer 0 into bank 0 \(at 25\) after a read of group 0 .* \(at 10\)"
    )
    with pytest.raises(HazardError, match=sentence):
        checker.observe(Read(B, 0), 25)


def test_what_was_in_a_bank_before_the_watch_may_run() -> None:
    moves: list[Move] = [Begin(0), Routed(0, (0,)), Run(A, 1), Completed(1), End(0)]
    assert watch(moves).hazards[0].kind == "wrong data"
    checker = HazardChecker(2, 2)
    checker.keeps(A, 1)
    for move in moves:
        checker.observe(move)
    assert checker.hazards == []


# ---- over a trace


def span(unit: str, start: int, end: int, group: int | None = None, bank: int | None = None, layer: int = 0) -> Span:
    names = {"storage": "read", "expert": "expert group", "plan": "routed"}
    return Span("test", "host", unit, names[unit], start, end - start, layer=layer, group=group, bank=bank)


GOOD = [
    span("storage", 0, 10, 0, 0), span("storage", 2, 20, 1, 1), span("plan", 12, 12, 0), span("plan", 12, 12, 1),
    span("expert", 12, 20, 0, 0), span("expert", 20, 30, 1, 1), span("storage", 20, 25, 0, 0, layer=1),
    span("plan", 31, 31, 0, layer=1), span("expert", 31, 40, 0, 0, layer=1),
]  # fmt: skip


def of(spans: list[Span], **provenance: str | int) -> list[tuple[str, int, int]]:
    trace = Trace(tuple(spans), {"banks": 2, "queue_depth": 2, **provenance})
    return [(hazard.kind, hazard.first.at, hazard.second.at) for hazard in hazards(trace)]


def test_a_good_trace_has_no_hazard() -> None:
    assert of(GOOD) == []


def test_ends_come_before_starts_at_the_same_time() -> None:
    again = [span("plan", 20, 20, 0), span("storage", 0, 20, 0, 0), span("expert", 20, 30, 0, 0)]
    assert of(again) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ((4, span("expert", 9, 20, 0, 0)), ("early publish", 0, 9)),
        ((6, span("storage", 19, 25, 0, 0, layer=1)), ("early reuse", 12, 19)),
        ((5, span("expert", 20, 30, 1, 0)), ("wrong data", 0, 20)),
        ((1, span("storage", 2, 20, 1, 0)), ("double owner", 0, 2)),
        ((8, span("expert", 29, 40, 0, 0, layer=1)), ("before routing", 25, 29)),
    ],
)
def test_a_fault_in_a_trace_is_found(change: tuple[int, Span], expected: tuple[str, int, int]) -> None:
    spans = GOOD.copy()
    spans[change[0]] = change[1]
    assert expected in of(spans)


def test_a_read_that_was_issued_before_the_routes_may_start_after_them() -> None:
    late = span("storage", 13, 14, 2, 1)
    done = [span("storage", 0, 10, 0, 0), span("plan", 12, 12, 0), span("expert", 12, 20, 0, 0)]
    assert of([*done, late]) == [("useless read", 12, 13)]
    issued = Span("test", "host", "plan", "issued", 11, 0, layer=0, group=2, bank=1)
    assert of([*done, late, issued]) == []


def test_only_what_was_kept_before_the_first_move_needs_no_read() -> None:
    runs = [span("plan", 12, 12, 0), span("expert", 12, 20, 0, 0)]
    before, later = (Span("test", "host", "plan", "kept", at, 0, layer=0, group=0, bank=0) for at in (5, 30))
    again = [span("plan", 31, 31, 0), span("expert", 31, 40, 0, 0)]
    assert of([before, *runs, later, *again]) == []
    assert of([*runs, later, *again]) == [("wrong data", 0, 12), ("wrong data", 0, 31)]


def test_a_read_starts_when_it_was_issued_and_not_when_the_bank_is_read_into_again() -> None:
    twice = [span("storage", 2, 10, 0, 0), span("plan", 12, 12, 0), span("expert", 12, 20, 0, 0)]
    again = [span("storage", 22, 30, 0, 0), span("plan", 32, 32, 0), span("expert", 32, 40, 0, 0)]
    issued = [Span("test", "host", "plan", "issued", at, 0, layer=0, group=0, bank=0) for at in (1, 21)]
    ended = [Span("test", "host", "plan", "ended", at, 0, layer=0) for at in (20, 40)]
    assert of([*issued, *twice, *again, *ended]) == []


def test_an_execution_that_is_missing_is_found() -> None:
    assert of([s for s in GOOD if not (s.unit == "expert" and s.group == 1)]) == [("never run", 12, 31)]


def test_a_read_that_outlives_its_layer_is_found() -> None:
    done = [span("storage", 0, 10, 0, 0), span("plan", 12, 12, 0), span("expert", 12, 20, 0, 0)]
    issued = Span("test", "host", "plan", "issued", 11, 0, layer=0, group=2, bank=1)
    ended = Span("test", "host", "plan", "ended", 22, 0, layer=0)
    assert of([*done, issued, span("storage", 13, 35, 2, 1), ended]) == [("left behind", 11, 22)]
    assert of([*done, issued, span("storage", 13, 22, 2, 1), ended]) == []


def test_a_trace_without_banks_is_refused() -> None:
    with pytest.raises(EStreamError, match="doesn't say how many banks"):
        hazards(Trace(tuple(GOOD)))
    with pytest.raises(EStreamError, match="all experts were resident"):
        hazards(Trace(tuple(GOOD), {"banks": 2, "schedule": "resident"}))
    assert hazards(Trace(tuple(GOOD)), banks=2) == []
