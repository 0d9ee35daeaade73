"""Groups that are read before it is known that they have no routes: few, and only as long as that is not known."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import Early
from estream_lab.simulate import LayerTimes, ServiceTimes, SharedBandwidth, recurrence, replay
from estream_lab.tuning import LayerGrid, pipe_times
from estream_lab.tuning.flow_shop import distances
from estream_lab.tuning.refined import shared_times
from estream_lab.tuning.roofline import roofline_times

from .grids import SCHEDULES, Layer, grid_of, layers

ROUTED = st.lists(st.booleans(), min_size=7, max_size=7)


def grid(layer: Layer, routed: Sequence[bool], depths: int = 1) -> LayerGrid:
    runs = [run if needed else 0 for run, needed in zip(layer.runs, routed, strict=False)]
    return LayerGrid.of([[layer.reads] * depths], [runs], [layer.non_expert], [list(routed[: len(runs)])])


def cut(layer: Layer, routed: Sequence[bool]) -> Layer:
    """Without the groups that have no routes."""
    kept = [k for k in range(len(layer.reads)) if routed[k]]
    return Layer([layer.reads[k] for k in kept], [layer.runs[k] for k in kept], layer.non_expert)


def test_one_that_is_read_early_costs_its_read_and_one_that_is_not_costs_nothing() -> None:
    """T^ne = 5, b = 2: groups 1 and 2 start at 0, group 3 waits for a bank and is skipped."""
    layer, routed = Layer([4, 4, 4, 4], [2, 3, 1, 2], 5), (True, False, False, True)
    told = recurrence(layer.reads, layer.runs, 5, 2, 2, routed=routed)
    assert (told.a, told.f) == ((0, 0, 7), (7, 7, 13))  # the fourth group follows the first one's bank
    assert pipe_times(grid(layer, routed, 2), 2, 2)[1] == 13
    slow = Layer([4, 9, 4, 4], [2, 3, 1, 2], 5)
    assert recurrence(slow.reads, slow.runs, 5, 2, 2, routed=routed).f == (7, 9, 13)  # executions are in line behind it
    assert pipe_times(grid(slow, routed), 1, 1).tolist() == [7 + 4 + 2]  # one bank: nothing is read in vain


@given(
    layer=layers(), routed=ROUTED, banks=st.integers(1, 8), depth=st.integers(1, 4), schedule=st.sampled_from(SCHEDULES)
)
def test_kernel_and_plain_version_agree(
    layer: Layer, routed: list[bool], banks: int, depth: int, schedule: str
) -> None:
    depth = min(depth, banks)
    plain = recurrence(*layer, banks, depth, schedule, routed[: len(layer.reads)])
    found = pipe_times(grid(layer, routed, depth), banks, depth, schedule)[-1]
    assert found == (plain.f[-1] if plain.f else layer.non_expert)


@given(layer=layers(), routed=ROUTED, banks=st.integers(1, 8), depth=st.integers(1, 4))
def test_at_most_as_many_as_banks_are_speculative_and_none_after_routing(
    layer: Layer, routed: list[bool], banks: int, depth: int
) -> None:
    routed = routed[: len(layer.reads)]
    for schedule, most in zip(SCHEDULES, (banks, 0, 0), strict=True):
        told = recurrence(*layer, banks, depth, schedule, routed)
        assert 0 <= len(told.a) - sum(routed) <= most


@given(layer=layers(), routed=ROUTED, banks=st.integers(1, 8), depth=st.integers(1, 3))
def test_where_routes_are_known_at_once_they_are_left_out(
    layer: Layer, routed: list[bool], banks: int, depth: int
) -> None:
    layer = layer._replace(non_expert=0)
    known = cut(layer, routed)
    for model in (pipe_times, shared_times):
        found = model(grid(layer, routed, depth), banks, depth)
        assert found == pytest.approx(model(grid_of(known, depths=depth), banks, depth))


@given(layer=layers(), routed=ROUTED, banks=st.integers(1, 7), depth=st.integers(1, 4))
def test_the_finer_model_is_what_a_pipeline_does_that_learns_of_routes_late(
    layer: Layer, routed: list[bool], banks: int, depth: int
) -> None:
    scale, count = 1000, len(layer.reads)  # a replay rounds up to whole ns, for every change of the share
    reads = [scale * (1 + x) + 7 * k for k, x in enumerate(layer.reads)]
    runs = {k: scale * (1 + x) + 13 for k, x in enumerate(layer.runs) if routed[k]}
    non_expert = scale * layer.non_expert + 500
    times = LayerTimes(0, non_expert, (1,) * count, runs, tuple(reads))
    trace = replay(
        ServiceTimes((times,)),
        Policies(Early()),
        banks=banks,
        queue_depth=min(depth, banks),
        storage=SharedBandwidth(1e9),
    )
    shares = [[n * read for read in reads] for n in range(1, depth + 1)]
    asked = LayerGrid.of(
        [shares], [[runs.get(k, 0) for k in range(count)]], [non_expert], [[k in runs for k in range(count)]]
    )
    assert shared_times(asked, banks, depth)[-1] == pytest.approx(trace.request_ns, abs=4 * count)


@given(layer=layers(), routed=ROUTED, banks=st.integers(1, 5), depth=st.integers(1, 3))
def test_bounds_and_the_roofline_leave_them_out(layer: Layer, routed: list[bool], banks: int, depth: int) -> None:
    whole, needed = grid(layer, routed, depth), grid_of(cut(layer, routed), depths=depth)
    assert (roofline_times(whole, banks, depth) == roofline_times(needed, banks, depth)).all()
    assert distances(whole, banks, depth) == distances(needed, banks, depth)
    assert (whole.needed.reads == needed.reads).all() and whole.needed.routed.all()


def test_a_time_of_what_is_not_executed_is_told() -> None:
    with pytest.raises(EStreamError, match="0 for executions without routes"):
        LayerGrid.of([[[1, 1]]], [[1, 1]], [0], [[True, False]])
    with pytest.raises(EStreamError, match=r"routed of shape \(3,\) doesn't fit 2 executions"):
        LayerGrid(np.array([0, 2]), np.ones((1, 2)), np.ones(2), np.zeros(1), np.ones(3, np.bool_))
    with pytest.raises(EStreamError, match=r"routed of shape \(0,\) doesn't fit 2 executions"):
        LayerGrid(np.array([0, 2]), np.ones((1, 2)), np.ones(2), np.zeros(1), np.ones(0, np.bool_))
