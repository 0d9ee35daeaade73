"""Reads that share the storage: as a simulated storage does it, and as the recurrence where nothing is shared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import Early
from estream_lab.simulate import LayerTimes, ServiceTimes, SharedBandwidth, replay
from estream_lab.tuning import LayerGrid, pipe_times, refined
from estream_lab.tuning.refined import shared_times

from .grids import Layer, grid_of, layers


def sharing(drawn: Layer, depths: int) -> LayerGrid:
    """With n under way each takes n times as long."""
    return LayerGrid.of(
        [[[n * read for read in drawn.reads] for n in range(1, depths + 1)]], [drawn.runs], [drawn.non_expert]
    )


@given(layer=layers(), banks=st.integers(1, 6), depth=st.integers(1, 4))
def test_it_is_what_a_storage_does_whose_reads_share_its_bandwidth(layer: Layer, banks: int, depth: int) -> None:
    scale, count = 1000, len(layer.reads)  # a replay rounds up to whole ns, for every change of the share
    scaled = Layer(
        [scale * (1 + x) for x in layer.reads], [scale * (1 + x) for x in layer.runs], scale * layer.non_expert
    )
    times = LayerTimes(0, scaled.non_expert, (1,) * count, dict(enumerate(scaled.runs)), tuple(scaled.reads))
    trace = replay(ServiceTimes((times,)), Policies(Early()), banks=banks, queue_depth=min(depth, banks),
                   storage=SharedBandwidth(1e9))  # fmt: skip
    assert shared_times(sharing(scaled, depth), banks, depth)[-1] == pytest.approx(trace.request_ns, abs=4 * count)


@given(layer=layers(least=0), banks=st.integers(1, 6))
def test_one_at_a_time_it_is_the_recurrence(layer: Layer, banks: int) -> None:
    assert shared_times(grid_of(layer), banks, 1) == pytest.approx(pipe_times(grid_of(layer), banks, 1))


def test_a_lone_read_runs_at_its_own_speed() -> None:
    """B = Q = 2: two reads of 4 share until 8; the third waits for a bank and then runs alone, in 4 and not in 8."""
    grid = sharing(Layer([4, 4, 4], [10, 10, 10], 0), 2)
    assert shared_times(grid, 2, 2).tolist() == [4 + 10 + 4 + 10 + 4 + 10, 8 + 30]
    assert pipe_times(grid, 2, 2)[1] == 8 + 30  # hidden behind executions either way
    quick = sharing(Layer([4, 4, 4], [1, 1, 1], 0), 2)
    assert shared_times(quick, 2, 2)[1] == pytest.approx(9 + 4 + 1)  # alone from 9 to 13
    assert pipe_times(quick, 2, 2)[1] == 9 + 8 + 1


def test_layers_add_up_and_the_kernel_is_compiled_once() -> None:
    one, other = Layer([4, 4, 4], [1, 1, 1], 0), Layer([], [], 6)
    both = LayerGrid.of([[[4, 4, 4], [8, 8, 8]], [[], []]], [one.runs, other.runs], [0, 6])
    assert shared_times(both, 3, 2) == pytest.approx(shared_times(sharing(one, 2), 3, 2) + 6)
    assert len(refined._sum_layers.signatures) == 1
    with pytest.raises(EStreamError, match="0 banks hold no group"):
        shared_times(both, 0, 1)
    with pytest.raises(EStreamError, match="queue depth 3: choose one from 1 to 2"):
        shared_times(both, 1, 3)
