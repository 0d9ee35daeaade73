"""The recurrence over grids: worked examples, explicit max-plus matrices, and the choice (laws: test_maxplus_laws)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.simulate import recurrence
from estream_lab.tuning import Candidate, Choice, LayerGrid, best, pipe_times
from estream_lab.tuning.layers import sum_layers

from .grids import SCHEDULES, Layer, grid_of, layers, time_of
from .matrices import by_matrices, library_times, times

A = Layer([4, 4, 4, 4], [2, 3, 1, 2], 5)
B = Layer([9, 1, 1, 1], [1, 1, 1, 1], 2)


def test_worked_example_a() -> None:
    grid = grid_of(A, depths=2)
    assert pipe_times(grid, 3, 2).tolist() == [25, 16, 13]
    assert pipe_times(grid, 1, 1).tolist() == [25]
    assert pipe_times(grid, 2, 2, "after-routing")[1] == 20
    assert pipe_times(grid, 2, 2, "on-demand").tolist() == [29, 29]


def test_worked_example_b() -> None:
    assert pipe_times(grid_of(B, depths=2), 4, 2)[3] == 13


@pytest.mark.parametrize(
    ("example", "depth", "banks", "schedule"),
    [(A, 2, 2, "early"), (A, 2, 3, "early"), (A, 1, 1, "early"), (A, 2, 2, "after-routing"), (B, 2, 4, "early")],
)
def test_after_each_group_of_the_examples_kernel_matrices_and_plain_version_agree(
    example: Layer, depth: int, banks: int, schedule: str
) -> None:
    reads, runs, non_expert = example
    plain = recurrence(reads, runs, non_expert, banks, depth, schedule)
    for k in range(1, 5):
        cut = Layer(reads[:k], runs[:k], non_expert)
        assert time_of(cut, banks, depth, schedule) == by_matrices(cut, banks, depth, schedule) == plain.f[k - 1]


@given(layer=layers(), banks=st.integers(1, 8), depth=st.integers(1, 4), schedule=st.sampled_from(SCHEDULES))
def test_kernel_matrices_and_plain_version_agree(layer: Layer, banks: int, depth: int, schedule: str) -> None:
    found = time_of(layer, banks, depth, schedule)
    assert found == recurrence(*layer, banks, depth, schedule).f[-1]
    depth = min(depth, banks)
    assert found == by_matrices(layer, banks, depth, schedule)


@given(
    drawn=st.lists(layers(least=0), min_size=1, max_size=4),
    extra=st.integers(1, 5),
    banks=st.integers(1, 8),
    schedule=st.sampled_from(SCHEDULES),
)
def test_a_grid_sums_its_layers_with_the_reads_of_the_depth_in_use(
    drawn: list[Layer], extra: int, banks: int, schedule: str
) -> None:
    reads = [[x.reads, [read + extra for read in x.reads]] for x in drawn]
    grid = LayerGrid.of(reads, [x.runs for x in drawn], [x.non_expert for x in drawn])
    expected = []
    for b in range(1, banks + 1):
        q = min(2, b)
        ends = [
            recurrence(rows[q - 1], x.runs, x.non_expert, b, q, schedule).f
            for rows, x in zip(reads, drawn, strict=True)
        ]
        expected.append(sum(f[-1] if f else x.non_expert for f, x in zip(ends, drawn, strict=True)))
    assert pipe_times(grid, banks, 2, schedule).tolist() == expected


whole_or_nothing = st.one_of(st.just(-np.inf), st.integers(-9, 9).map(float))


@given(data=st.data(), sizes=st.tuples(*[st.integers(1, 5)] * 3))
def test_products_are_those_of_a_public_library(data: st.DataObject, sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    left, right = (
        np.array(data.draw(st.lists(whole_or_nothing, min_size=m * n, max_size=m * n))).reshape(m, n)
        for m, n in ((rows, inner), (inner, columns))
    )
    assert (times(left, right) == library_times(left, right)).all()


@given(layer=layers(), banks=st.integers(1, 6), depth=st.integers(1, 3), schedule=st.sampled_from(SCHEDULES))
def test_the_kernel_agrees_with_matrices_that_a_public_library_multiplies(
    layer: Layer, banks: int, depth: int, schedule: str
) -> None:
    found = time_of(layer, banks, depth, schedule)
    assert found == by_matrices(layer, banks, min(depth, banks), schedule, library_times)


def test_the_best_is_the_fastest_and_of_equals_the_fewest_banks_the_smallest_arena_the_smallest_group() -> None:
    slow, fast = grid_of(A, depths=2), grid_of(A._replace(non_expert=4), depths=2)
    idle = grid_of(Layer([0, 0], [1, 1], 3), depths=2)  # 5 with any banks
    assert best([Candidate(2, 10, 3, slow), Candidate(4, 20, 3, fast)], 2) == Choice(4, 2, 3, 12.0, 60)
    assert best([Candidate(2, 10, 2, slow), Candidate(4, 20, 3, idle)], 2) == Choice(4, 1, 1, 5.0, 20)
    one_bank, two_banks = grid_of(Layer([1], [1], 4)), grid_of(Layer([1, 3], [1, 1], 3))
    assert pipe_times(two_banks, 2, 1).tolist() == [8, 5] and pipe_times(one_bank, 1, 1).tolist() == [5]
    fewer = [Candidate(2, 10, 2, two_banks), Candidate(4, 90, 1, one_bank)]
    assert best(fewer, 1).group_size == best(fewer[::-1], 1).group_size == 4
    smaller = [Candidate(2, 30, 1, one_bank), Candidate(4, 20, 1, one_bank)]
    assert best(smaller, 1).group_size == best(smaller[::-1], 1).group_size == 4
    equal = [Candidate(4, 20, 1, one_bank), Candidate(2, 20, 1, one_bank)]
    assert best(equal, 1).group_size == best(equal[::-1], 1).group_size == 2


def test_the_kernel_is_compiled_once_whatever_arrays_are_given() -> None:
    reads, runs = np.ones((2, 2), np.float32, order="F"), np.ones(4)[::2]
    runs.flags.writeable = False
    grid = LayerGrid(np.array([0, 2], np.int32), reads, runs, [1])
    assert pipe_times(grid, 2, np.int32(2)).tolist() == [4, 3]
    assert pipe_times(grid_of(A), 2, 1).tolist() == [25, 18]
    assert len(sum_layers.signatures) == 1


def test_what_is_no_grid_is_told() -> None:
    with pytest.raises(EStreamError, match="runs holds a time that is negative"):
        LayerGrid.of([[[1]]], [[-1]], [0])
    with pytest.raises(EStreamError, match="non_expert holds a time that is negative or no number"):
        LayerGrid.of([[[1]]], [[1]], [float("nan")])
    with pytest.raises(EStreamError, match="reads has 1 dimensions"):
        LayerGrid([0, 1], [1], [1], [1])
    with pytest.raises(EStreamError, match=r"reads of shape \(1, 2\) don't fit 1 executions"):
        LayerGrid([0, 1], [[1, 1]], [1], [1])
    with pytest.raises(EStreamError, match=r"reads of shape \(0, 1\)"):
        LayerGrid([0, 1], np.ones((0, 1)), [1], [1])
    for offsets in ([0, 1], [0, 1, 1], [1, 1, 2], [0, 3, 2], [[0, 1, 2]]):
        with pytest.raises(EStreamError, match="offsets don't divide 2 groups among 2 layers"):
            LayerGrid(offsets, [[1, 1]], [1, 1], [1, 1])
    for reads, runs in (([[1]], [[1]]), ([[[1]], [[1], [1]]], [[1], [1]]), ([[[1]]], [[1, 1]]), ([], [])):
        with pytest.raises(EStreamError, match="don't match layer for layer"):
            LayerGrid.of(reads, runs, [1] * len(runs))


def test_what_cannot_be_chosen_is_told() -> None:
    grid = grid_of(A, depths=2)
    with pytest.raises(EStreamError, match="unknown schedule 'late'"):
        pipe_times(grid, 1, 1, "late")
    with pytest.raises(EStreamError, match="0 banks hold no group"):
        pipe_times(grid, 0, 1)
    for depth in (0, 3):
        with pytest.raises(EStreamError, match=f"queue depth {depth}: choose one from 1 to 2"):
            pipe_times(grid, 2, depth)
    with pytest.raises(EStreamError, match="no group size to choose from"):
        best([], 1)
