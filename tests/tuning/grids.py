"""Layers drawn for the tests of the configuration model, and their grids."""

from typing import NamedTuple

from hypothesis import strategies as st

from estream_lab.tuning import LayerGrid, pipe_times

SCHEDULES = ("early", "after-routing", "on-demand")


class Layer(NamedTuple):
    """Times in whole ns, which float64 adds exactly."""

    reads: list[int]
    runs: list[int]
    non_expert: int


@st.composite
def layers(draw: st.DrawFn, least: int = 1) -> Layer:
    groups = draw(st.integers(least, 7))
    times = st.lists(st.integers(0, 9), min_size=groups, max_size=groups)
    return Layer(draw(times), draw(times), draw(st.integers(0, 20)))


def grid_of(*drawn: Layer, depths: int = 1) -> LayerGrid:
    """The same read times at every depth."""
    return LayerGrid.of([[x.reads] * depths for x in drawn], [x.runs for x in drawn], [x.non_expert for x in drawn])


def time_of(layer: Layer, banks: int, depth: int, schedule: str = "early") -> float:
    """T_pipe at exactly that depth, which `pipe_times` takes with enough banks only."""
    return float(pipe_times(grid_of(layer, depths=depth), max(banks, depth), depth, schedule)[banks - 1])
