"""Unions of intervals, in whole nanoseconds."""

from collections.abc import Iterable


def union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """Length of the union of `(start, end)` intervals, in their unit; intervals that touch or overlap count once.

    Raises `ValueError` for an interval that ends before it starts.
    """
    total = 0
    reach: int | None = None  # everything up to here is counted
    for start, end in sorted(intervals):
        if end < start:
            raise ValueError(f"interval ({start}, {end}) ends before it starts")
        if reach is None or start > reach:
            total += end - start
            reach = end
        elif end > reach:
            total += end - reach
            reach = end
    return total
