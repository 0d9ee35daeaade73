"""How many experts a prompt touches, against sets of ids."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.routing import Routes, synthetic_routes
from estream_lab.routing.touched import touched_experts, touched_if_even


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=40).map(sorted))
def test_each_prefix_touches_the_distinct_experts_of_its_routes(pairs: list[tuple[int, int]]) -> None:
    routes = Routes([t for t, _ in pairs], [e for _, e in pairs], [1.0] * len(pairs))
    last = max((t for t, _ in pairs), default=-1)
    expected = [len({e for token, e in pairs if token <= t}) for t in range(last + 1)]
    assert touched_experts(routes).tolist() == expected


def test_an_even_router_touches_what_the_formula_says_on_average() -> None:
    even = np.mean([touched_experts(synthetic_routes(40, 32, 4, alpha=1e6, seed=seed)) for seed in range(200)], axis=0)
    assert np.abs(even - touched_if_even(40, 32, 4)).max() < 0.35  # five standard errors
    assert touched_if_even(3, 8, 8).tolist() == [8, 8, 8]
    assert touched_if_even(2, 4, 1).tolist() == [1, 1.75]


def test_impossible_draws_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot draw 5 of 4"):
        touched_if_even(3, 4, 5)
