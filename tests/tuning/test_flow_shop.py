"""The layer as a flow shop: the bound is the best of all orders, and holds for every one with any banks."""

from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.simulate import recurrence
from estream_lab.tuning.flow_shop import distances, johnson_order, work_bound

from .grids import Layer, grid_of, layers


def every_order(layer: Layer, banks: int) -> list[int]:
    """The makespan of each order, storage serving one read at a time."""
    jobs = list(zip(layer.reads, layer.runs, strict=True))
    return [recurrence(*zip(*order, strict=True), layer.non_expert, banks, 1).f[-1] for order in permutations(jobs)]


small = layers().filter(lambda layer: len(layer.reads) <= 5)


@given(layer=small, banks=st.integers(1, 5))
def test_the_bound_is_the_best_of_all_orders_and_no_number_of_banks_is_below(layer: Layer, banks: int) -> None:
    found = distances(grid_of(layer), banks, 1)
    assert found.bound_ns == min(every_order(layer, len(layer.reads)))
    assert found.work_ns <= found.bound_ns <= min(every_order(layer, banks))
    assert found.bound_ns <= min(found.by_order_ns.values())


@given(drawn=st.lists(small, min_size=1, max_size=3), banks=st.integers(2, 5), depth=st.integers(2, 3))
def test_reads_that_share_the_storage_are_no_faster_than_one_after_the_other(
    drawn: list[Layer], banks: int, depth: int
) -> None:
    """Their L is that of a share: the bound has them at full speed."""
    found = distances(grid_of(*drawn, depths=depth), banks, depth)
    used = min(depth, banks)
    whole = [layer._replace(reads=[read * used for read in layer.reads]) for layer in drawn]
    shared = distances(grid_of(*whole, depths=depth), banks, depth)
    assert shared.bound_ns <= min(shared.by_order_ns.values())
    assert shared.bound_ns == sum(distances(grid_of(layer), banks, 1).bound_ns for layer in drawn)
    assert found.bound_ns <= shared.bound_ns


def test_johnsons_order_of_an_example() -> None:
    reads, runs = np.array([5.0, 1, 9, 3, 10]), np.array([2.0, 6, 7, 8, 4])
    assert johnson_order(reads, runs).tolist() == [1, 3, 2, 4, 0]  # the textbook's: 30
    found = distances(grid_of(Layer([5, 1, 9, 3, 10], [2, 6, 7, 8, 4], 0)), 5, 1)
    assert found.bound_ns == found.by_order_ns["johnson"] == 30
    assert found.work_ns == max(1 + 27, 28 + 2)


def test_each_order_is_what_it_is_called() -> None:
    layer = Layer([4, 1, 6], [1, 3, 2], 2)
    found = distances(grid_of(layer), 2, 1).by_order_ns
    by_hand = {"offline": [0, 1, 2], "johnson": [1, 2, 0], "descending work": [1, 2, 0]}
    for name, order in by_hand.items():
        reads, runs = ([row[i] for i in order] for row in (layer.reads, layer.runs))
        assert found[name] == recurrence(reads, runs, 2, 2, 1).f[-1], name
    assert johnson_order(np.array(layer.reads), np.array(layer.runs)).tolist() == by_hand["johnson"]


def test_a_layer_without_groups_takes_its_non_expert_time() -> None:
    empty = Layer([], [], 6)
    found = distances(grid_of(empty, Layer([2], [3], 4)), 2, 1)
    assert (found.bound_ns, found.work_ns, found.by_order_ns["offline"]) == (6 + 7, 6 + 7, 6 + 7)
    assert distances(grid_of(empty), 1, 1).bound_ns == work_bound(np.empty(0), np.empty(0), 6.0) == 6
