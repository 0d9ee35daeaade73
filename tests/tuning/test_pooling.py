"""Times of requests that did the same work: the faster half of them, and its median."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.tuning.pooling import pooled, undisturbed


def test_the_faster_half_of_whole_requests_is_kept() -> None:
    times = [[9.0, 1.0], [2.0, 3.0], [4.0, 4.0], [100.0, 0.0], [5.0, 2.0]]
    assert undisturbed(times).tolist() == [[2.0, 3.0], [5.0, 2.0], [4.0, 4.0]]
    assert pooled(times).tolist() == [4.0, 3.0]
    assert undisturbed([3, 1]).tolist() == [1] and pooled([[7, 8]]).tolist() == [7, 8]


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=9), st.floats(1, 10))
def test_requests_that_are_made_slower_do_no_harm_while_half_are_not(times: list[int], factor: float) -> None:
    """Those beyond the faster half, made slower still."""
    found = sorted(times)
    half = -(-len(found) // 2)
    slowed = [*found[:half], *(factor * time for time in found[half:])]
    assert pooled(slowed) == pooled(times)
    assert np.max(undisturbed(times)) == found[half - 1]
