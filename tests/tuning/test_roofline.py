"""The roofline planner: its times by hand, the bound that they are, and what it can't see."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.tuning import Candidate, LayerGrid, best, pipe_times
from estream_lab.tuning.roofline import roofline_best, roofline_times

from .grids import Layer, grid_of, layers


def test_the_busier_lane_by_hand() -> None:
    """ΣL = 16 with L of one read, 20 with L of two; T^ne + ΣX = 13; the second layer has nothing to read."""
    grid = LayerGrid.of([[[4, 4, 4, 4], [5, 5, 5, 5]], np.zeros((2, 0))], [[2, 3, 1, 2], []], [5, 7])
    assert roofline_times(grid, 3, 2).tolist() == [16 + 7, 13 + 7, 13 + 7]
    assert roofline_times(grid, 3, 1).tolist() == [16 + 7] * 3


@given(st.lists(layers(least=0), min_size=1, max_size=3), st.integers(1, 4), st.integers(1, 3))
def test_no_recurrence_is_below_the_roofline(drawn: list[Layer], banks: int, depth: int) -> None:
    grid = grid_of(*drawn, depths=depth)
    assert (roofline_times(grid, banks, depth) <= pipe_times(grid, banks, depth) + 1e-9).all()


def test_it_sees_no_use_in_more_banks_than_queue_places() -> None:
    """Worked example A: the third bank saves three of sixteen, which the roofline takes for thirteen at once."""
    grid = grid_of(Layer([4, 4, 4, 4], [2, 3, 1, 2], 5), depths=2)
    candidates = [Candidate(2, 20, 3, grid)]
    seen, told = best(candidates, 2), roofline_best(candidates, 2)
    assert (seen.banks, seen.pipe_ns) == (3, 13)
    assert (told.banks, told.pipe_ns) == (2, 13)
    assert pipe_times(grid, 3, 2)[told.banks - 1] == 16


def test_what_has_no_roofline_is_told() -> None:
    grid = grid_of(Layer([4], [2], 5), depths=2)
    with pytest.raises(EStreamError, match="for 0 banks"):
        roofline_times(grid, 0, 1)
    with pytest.raises(EStreamError, match="at queue depth 3"):
        roofline_times(grid, 1, 3)
    with pytest.raises(EStreamError, match="no group size to choose from"):
        roofline_best([], 1)
