import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.trace import Span, Trace, npu_idle, storage_idle, union_ns

INTERVALS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30)).map(lambda p: (p[0], p[0] + p[1])), max_size=12)


def span(unit: str, start: int, end: int, clock: str = "host") -> Span:
    return Span("host", clock, unit, unit, start, end - start)


def brute(intervals: list[tuple[int, int]]) -> set[int]:
    return {tick for start, end in intervals for tick in range(start, end)}


@given(intervals=INTERVALS)
def test_union_is_the_number_of_covered_ticks(intervals: list[tuple[int, int]]) -> None:
    assert union_ns(intervals) == len(brute(intervals))


def test_union_refuses_a_reversed_interval() -> None:
    with pytest.raises(ValueError, match="ends before"):
        union_ns([(3, 2)])


def test_worked_example_a() -> None:
    """Section 7 A, q = 2, b = 2: NPU busy 13 of 16, idle 18.75 %; reads cover 0-4 and 7-14."""
    reads = [(0, 4), (0, 4), (7, 11), (10, 14)]
    runs = [(5, 7), (7, 10), (11, 12), (14, 16)]
    trace = Trace(
        (
            span("request", 0, 16),
            span("dense", 0, 5),
            *(span("storage", *r) for r in reads),
            *(span("expert", *r) for r in runs),
            span("wait", 12, 14),
        )
    )
    assert npu_idle(trace) == 0.1875
    assert storage_idle(trace) == 1 - 11 / 16


@given(reads=INTERVALS, work=INTERVALS, start=st.integers(0, 40), length=st.integers(1, 50))
def test_idle_counts_only_what_lies_in_the_request(
    reads: list[tuple[int, int]], work: list[tuple[int, int]], start: int, length: int
) -> None:
    spans = [span("request", start, start + length), *(span("storage", *r) for r in reads)]
    spans += [span("dense" if i % 2 else "expert", *w) for i, w in enumerate(work)]
    trace, window = Trace(tuple(spans)), set(range(start, start + length))
    assert storage_idle(trace) == len(window - brute(reads)) / length
    assert npu_idle(trace) == len(window - brute(work)) / length


def test_without_time_there_is_no_idle_share() -> None:
    with pytest.raises(EStreamError, match="no time"):
        storage_idle(Trace())
    with pytest.raises(EStreamError, match="without time"):
        storage_idle(Trace((span("storage", 0, 1, clock="order"),)))


def test_mixed_clocks_are_refused_where_they_matter() -> None:
    trace = Trace((span("request", 0, 10), span("dense", 0, 5), span("storage", 0, 4, clock="qtimer")))
    with pytest.raises(EStreamError, match="host, qtimer"):
        storage_idle(trace)
    assert npu_idle(trace) == 0.5
