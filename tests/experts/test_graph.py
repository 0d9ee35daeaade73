"""The shared graph: exact extents, the split at C, and worked example C with scalar experts."""

import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.experts import PAGE_BYTES, Arena, Binding, ExpertShape, RecordClass, compact
from estream_lab.experts.graph import ExpertGraph, GraphCounts
from estream_lab.routing import Routes

RECORD = RecordClass.of(ExpertShape(32, 32, ("q4-32x32",) * 3))


class ScalarExperts:
    """f_e(x) = e * x, with e kept in the first byte of the slot: the graph's bookkeeping without its arithmetic."""

    numerics_profile = "scalar"
    nbytes = 0

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def __call__(
        self, x: NDArray[np.float32], y: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass
    ) -> None:
        self.sizes.append(len(binding))
        gate, _, _ = arena.addresses(binding.slot, record)
        for local, (first, last) in enumerate(zip(binding.offsets[:-1], binding.offsets[1:], strict=True)):
            for i in range(first, last):
                y[binding.token[i]] += binding.weight[i] * arena.memory[gate[local]] * x[binding.token[i]]


@pytest.fixture
def arena() -> Arena:
    made = Arena(2, 2, PAGE_BYTES)
    made.memory[::PAGE_BYTES] = [0, 1, 4, 5]  # slots hold experts 0, 1, 4, 5
    return made


ROUTES = Routes(
    np.array([0, 0, 1, 1, 2, 2], np.int32),
    np.array([4, 1, 1, 5, 4, 0], np.int32),
    np.array([0.6, 0.4, 0.7, 0.3, 0.5, 0.5], np.float32),
)
PLACEMENT = np.array([0, 1, -1, -1, 2, 3], np.int32)


@pytest.mark.parametrize(("capacity", "sizes"), [(6, [3, 3]), (3, [3, 3]), (2, [2, 1, 2, 1]), (1, [1] * 6)])
def test_worked_example_c_whatever_the_capacity(arena: Arena, capacity: int, sizes: list[int]) -> None:
    kernel, counts = ScalarExperts(), GraphCounts()
    graph = ExpertGraph(RECORD, arena, kernel, capacity, 3, counts)
    x = np.repeat(np.array([[1], [2], [3]], np.float32), 32, axis=1)
    y = np.zeros_like(x)
    taken = sum(graph.invoke(x, y, compact(ROUTES, PLACEMENT, bank * 2, 2)) for bank in range(2))
    np.testing.assert_allclose(y[:, 0], [2.8, 4.4, 6.0], rtol=1e-6)
    assert kernel.sizes == sizes and taken == len(sizes)  # exactly the routes, never padded to C
    assert (counts.builds, counts.invocations, counts.routes) == (1, len(sizes), 6)


def test_a_bank_without_routes_is_not_invoked(arena: Arena) -> None:
    kernel = ScalarExperts()
    graph = ExpertGraph(RECORD, arena, kernel, 4, 3, GraphCounts())
    x = np.ones((3, 32), np.float32)
    none = Routes(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float32))
    assert graph.invoke(x, np.zeros_like(x), compact(none, PLACEMENT, 0, 2)) == 0 and not kernel.sizes


def test_rows_beyond_t_max_and_misfits_are_refused(arena: Arena) -> None:
    graph = ExpertGraph(RECORD, arena, ScalarExperts(), 4, 3, GraphCounts())
    binding = compact(ROUTES, PLACEMENT, 0, 2)
    x = np.ones((4, 32), np.float32)
    with pytest.raises(ValueError, match="don't fit a graph of 3 rows"):
        graph.invoke(x, np.zeros_like(x), binding)
    with pytest.raises(ValueError, match="capacities"):
        ExpertGraph(RECORD, arena, ScalarExperts(), 0, 3, GraphCounts())
    with pytest.raises(ValueError, match="doesn't fit a slot"):
        ExpertGraph(RecordClass.of(ExpertShape(256, 256, ("f32",) * 3)), arena, ScalarExperts(), 4, 3, GraphCounts())
