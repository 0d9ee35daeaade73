from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from estream_lab.trace import Span, Trace, assign_tracks, tracks

from .traces import TRACES, spans


def overlap(a: Span, b: Span) -> bool:
    return max(a.start_ns, b.start_ns) < min(a.end_ns, b.end_ns)


@given(items=st.lists(spans(), max_size=14))
def test_tracks_are_free_of_overlap_and_no_more_than_needed(items: list[Span]) -> None:
    numbers = assign_tracks(items)
    for i, a in enumerate(items):
        for j in range(i):
            assert numbers[i] != numbers[j] or not overlap(a, items[j])
    # at the start of some span as many are alive as there are tracks (zero-length spans also take their instant)
    alive = max((sum(o.start_ns <= s.start_ns < o.end_ns or o is s for o in items) for s in items), default=0)
    assert max(numbers, default=-1) + 1 <= alive


@given(trace=TRACES)
def test_every_span_is_on_one_track_of_its_own_unit(trace: Trace) -> None:
    lines = tracks(trace)
    placed = [span for line in lines for span in line.spans]
    assert sorted(map(repr, placed)) == sorted(map(repr, trace.spans))
    for line in lines:
        assert {(s.lane, s.clock, s.request, s.unit) for s in line.spans} == {
            (line.lane, line.clock, line.request, line.unit)
        }
        assert all(a.end_ns <= b.start_ns for a, b in pairwise(line.spans))


def test_units_come_in_the_order_of_the_schema_and_second_tracks_are_numbered() -> None:
    items = [("storage", 0), ("storage", 1), ("expert", 3), ("request", 0)]
    trace = Trace(tuple(Span("host", "host", unit, unit, start, 4) for unit, start in items))
    assert [line.name for line in tracks(trace)] == ["request", "expert", "storage", "storage 2"]
    assert {line.origin_ns for line in tracks(trace)} == {0}


def test_the_lowest_free_track_is_taken() -> None:
    ends = [(0, 10), (0, 6), (0, 4), (7, 9)]  # tracks 0, 1 and 2 in order of end 2, 1, 0; the fourth finds 1 and 2 free
    items = [Span("host", "host", "storage", "read", start, end - start) for start, end in ends]
    longest_first = assign_tracks(items)
    taken = {longest_first[1], longest_first[2]}
    assert longest_first[3] == min(taken)


def test_each_clock_has_its_own_origin() -> None:
    foreign = Span("device", "qtimer", "storage", "read", 900, 4)
    trace = Trace(
        (Span("host", "host", "dense", "embedding", 20, 4), Span("host", "host", "request", "prefill", 30, 4), foreign)
    )
    assert {line.clock: line.origin_ns for line in tracks(trace)} == {"host": 30, "qtimer": 900}
