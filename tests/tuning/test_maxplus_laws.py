"""What holds for the recurrence whatever the service times are, and what doesn't."""

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from estream_lab.simulate import recurrence
from estream_lab.tuning import pipe_times

from .grids import SCHEDULES, Layer, grid_of, layers, time_of


@given(layer=layers(), depth=st.integers(1, 3), schedule=st.sampled_from(SCHEDULES))
def test_one_bank_more_never_costs_time_and_more_banks_than_groups_gain_none(
    layer: Layer, depth: int, schedule: str
) -> None:
    groups = len(layer.reads)
    found = pipe_times(grid_of(layer, depths=depth), groups + depth + 2, depth, schedule)[depth - 1 :]
    assert (np.diff(found) <= 0).all()
    assert set(found[max(groups - depth, 0) :]) == {found[max(groups - depth, 0)]}


@given(
    layer=layers(),
    banks=st.integers(1, 8),
    depth=st.integers(1, 3),
    schedule=st.sampled_from(SCHEDULES),
    data=st.data(),
)
def test_a_smaller_time_never_costs_time(
    layer: Layer, banks: int, depth: int, schedule: str, data: st.DataObject
) -> None:
    flat = [*layer.reads, *layer.runs, layer.non_expert]
    which = data.draw(st.integers(0, len(flat) - 1))
    assume(flat[which] > 0)
    flat[which] -= data.draw(st.integers(1, flat[which]))
    groups = len(layer.reads)
    smaller = Layer(flat[:groups], flat[groups:-1], flat[-1])
    assert time_of(smaller, banks, depth, schedule) <= time_of(layer, banks, depth, schedule)


@given(layer=layers(), read=st.integers(0, 9), banks=st.integers(1, 8), depth=st.integers(1, 4))
def test_with_equal_reads_one_queue_place_more_never_costs_time(
    layer: Layer, read: int, banks: int, depth: int
) -> None:
    equal = layer._replace(reads=[read] * len(layer.reads))
    assert time_of(equal, banks, depth + 1) <= time_of(equal, banks, depth)


WORSE_BY_A_QUEUE_PLACE = Layer([2, 1, 1, 4], [1, 1, 1, 1], 0)


def test_with_unequal_reads_one_queue_place_more_may_cost_time() -> None:
    """With q = 2 the long read follows the short second one, a_4 = d_2 = 1; with q = 3 it waits for d_1 = 2."""
    two, three = (recurrence(*WORSE_BY_A_QUEUE_PLACE, 4, q) for q in (2, 3))
    assert (two.a, two.f) == ((0, 0, 2, 1), (3, 4, 5, 6))
    assert (three.a, three.f) == ((0, 0, 0, 2), (3, 4, 5, 7))
    assert [time_of(WORSE_BY_A_QUEUE_PLACE, 4, q) for q in (2, 3)] == [6, 7]


def test_no_counterexample_has_less_time_in_it() -> None:
    """Of all layers whose reads and executions take at least 1 each, it is the only one of at most its sum of times."""
    total = sum(WORSE_BY_A_QUEUE_PLACE.reads) + sum(WORSE_BY_A_QUEUE_PLACE.runs)
    worse = [
        Layer(parts[:groups], parts[groups:], non_expert)
        for groups in range(1, total // 2 + 1)
        for non_expert in range(total - 2 * groups + 1)
        for parts in compositions(total - non_expert, 2 * groups)
        if any(
            recurrence(parts[:groups], parts[groups:], non_expert, b, q + 1).f[-1]
            > recurrence(parts[:groups], parts[groups:], non_expert, b, q).f[-1]
            for b in range(2, groups + 1)
            for q in range(1, b)
        )
    ]
    assert worse == [WORSE_BY_A_QUEUE_PLACE]


def compositions(most: int, parts: int) -> Iterator[list[int]]:
    """Every list of that many whole numbers from 1 whose sum is at most ``most``."""
    for cuts in combinations(range(1, most + 1), parts):
        yield np.diff([0, *cuts]).tolist()


@given(layer=layers(), banks=st.integers(1, 8), depth=st.integers(1, 4))
def test_early_is_no_slower_than_after_routing_nor_that_than_on_demand(layer: Layer, banks: int, depth: int) -> None:
    early, after, demand = (time_of(layer, banks, depth, schedule) for schedule in SCHEDULES)
    assert early <= after <= demand


@given(layer=layers())
def test_one_bank_is_serial_after_the_first_read(layer: Layer) -> None:
    first = max(layer.reads[0], layer.non_expert) + layer.runs[0]
    assert time_of(layer, 1, 1) == first + sum(layer.reads[1:]) + sum(layer.runs[1:])


@given(layer=layers(), banks=st.integers(1, 8), depth=st.integers(1, 4), schedule=st.sampled_from(SCHEDULES))
def test_no_schedule_beats_storage_or_the_executor(layer: Layer, banks: int, depth: int, schedule: str) -> None:
    q = min(depth, banks)
    bound = max(sum(layer.reads) / q, layer.non_expert + sum(layer.runs))
    assert time_of(layer, banks, depth, schedule) >= bound


@given(layer=layers(), banks=st.integers(1, 8), depth=st.integers(1, 4))
def test_more_queue_places_than_banks_gain_nothing(layer: Layer, banks: int, depth: int) -> None:
    many, enough = (recurrence(*layer, banks, q).f for q in (banks + depth, banks))
    assert many == enough
