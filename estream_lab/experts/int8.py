"""The host's fast arithmetic as a graph's kernel: int4 weights times activations in int8 (`kernels.int8`)."""

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.experts.arena import Arena
from estream_lab.experts.binding import Binding
from estream_lab.experts.shape import RecordClass
from estream_lab.kernels import int8
from estream_lab.kernels.host import threads


class Int8Kernel:
    """Experts with int8 activations, with all temporaries, for one shape class and capacity.

    Args:
        record: the record class that it reads, of layout q4-32x32.
        route_capacity: C, the most records of one call.

    Raises:
        EStreamError: records of another layout.
    """

    numerics_profile = "host-int8"

    def __init__(self, record: RecordClass, route_capacity: int) -> None:
        _check(record)
        self._scratch = int8.Scratch(route_capacity, record.shape.hidden, record.shape.ffn, threads())
        self.nbytes: int = self._scratch.nbytes

    @staticmethod
    def bytes_for(record: RecordClass, route_capacity: int, threads: int) -> int:
        """`nbytes` of a kernel of this size."""
        _check(record)
        return int8.Scratch.bytes_for(route_capacity, record.shape.hidden, record.shape.ffn, threads)

    def __call__(
        self, x: NDArray[np.float32], y: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass
    ) -> None:
        """See `experts.graph.ExpertKernel`."""
        gate, up, down = arena.addresses(binding.slot, record)
        shape, routes = record.shape, (binding.offsets, binding.token, binding.weight)
        int8.expert_bank(x, y, *routes, arena.memory, gate, up, down, shape.hidden, shape.ffn, self._scratch)


def _check(record: RecordClass) -> None:
    other = sorted(set(record.shape.layouts) - {int8.LAYOUT})
    if other:
        raise EStreamError(
            f"profile {Int8Kernel.numerics_profile} reads records of layout {int8.LAYOUT}, not {', '.join(other)}: "
            "pack the store with Q4_0 weights, or choose profile host-f32"
        )
