"""Rows of static graphs, on counts worked out by hand and against a loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.routing import Routes, synthetic_routes
from estream_lab.routing.padding import RowCost, capacity, dropped_routes, padded, row_costs, tiled

COUNTS = np.array([5, 0, 2, 1], np.int64)  # R = 8: T = 5 tokens, some with one route


def test_rows_on_counts_worked_out_by_hand() -> None:
    assert padded(COUNTS, 5) == RowCost(8, 20, 0)
    assert padded(COUNTS, 2) == RowCost(8, 8, 3)
    assert (padded(COUNTS, 2).kept, padded(COUNTS, 2).padding) == (5, 3)
    assert tiled(COUNTS) == RowCost(8, 8, 0)
    assert tiled(COUNTS, 4) == RowCost(8, 8 + 4 + 4, 0)


def test_the_ways_go_from_the_most_rows_to_the_fewest() -> None:
    costs = row_costs(COUNTS, tokens=6, factor=1.5, row_tile=2)
    assert {name: (cost.rows, cost.dropped) for name, cost in costs.items()} == {
        "each expert as many rows as tokens": (24, 0),
        "each expert as many rows as the busiest": (20, 0),
        "capacity factor 1.5": (12, 2),  # 3 each
        "exact, in tiles of 2 rows": (10, 0),
        "exact compaction": (8, 0),
    }


def test_a_capacity_is_rounded_up_to_whole_rows_once() -> None:
    assert [capacity(8, 4, factor) for factor in (0.5, 1, 1.01, 1.5)] == [1, 2, 3, 3]
    assert capacity(100, 10, 1.1) == 11  # 1.1 * 10 exceeds 11 in binary
    assert capacity(0, 4, 1) == 0
    for arguments in ((8, 4, 0), (8, 0, 1), (-1, 4, 1), (8, 4, float("nan"))):
        with pytest.raises(ValueError, match="no capacity"):
            capacity(*arguments)


@given(st.integers(0, 40), st.integers(1, 12), st.data())
def test_rows_add_up_and_a_larger_factor_never_drops_more(tokens: int, experts: int, data: st.DataObject) -> None:
    top_k = data.draw(st.integers(1, experts))
    routes = synthetic_routes(tokens, experts, top_k, alpha=0.5, seed=3)
    counts = routes.counts(experts)
    dropped = []
    for factor in (0.5, 1.0, 1.5, experts / top_k):
        costs = row_costs(counts, tokens, factor)
        for cost in costs.values():
            assert cost.kept + cost.dropped == cost.routes == len(routes)
            assert cost.kept + cost.padding == cost.rows
            assert cost.padding >= 0
        dropped.append(costs[f"capacity factor {factor:g}"].dropped)
    assert dropped == sorted(dropped, reverse=True)
    assert dropped[-1] == 0  # E/k: T rows each


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=40).map(sorted), st.integers(0, 5))
def test_the_first_routes_of_an_expert_are_kept(pairs: list[tuple[int, int]], rows_each: int) -> None:
    routes = Routes([t for t, _ in pairs], [e for _, e in pairs], [1.0] * len(pairs))
    taken, expected = dict.fromkeys(range(5), 0), []
    for _, expert in pairs:
        taken[expert] += 1
        expected.append(taken[expert] > rows_each)
    late = dropped_routes(routes, 5, rows_each)
    assert late.tolist() == expected
    assert late.sum() == padded(routes.counts(5), rows_each).dropped
