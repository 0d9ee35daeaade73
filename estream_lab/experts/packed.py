"""The host's fast arithmetics as a graph's kernel: operators that read q4-32x32 alone and take a bank at a time."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.experts.arena import Arena
from estream_lab.experts.binding import Binding
from estream_lab.experts.shape import RecordClass
from estream_lab.kernels.host import threads
from estream_lab.kernels.layout import Q4


class PackedKernel:
    """Experts by one of these operators, with all temporaries, for one shape class and capacity.

    Args:
        record: the record class that it reads, of layout q4-32x32.
        route_capacity: C, the most records of one call.

    Attributes:
        operator: adds the results of a bank's routes to y: see `kernels.int8.expert_bank`.
        scratch: makes its temporaries for so many routes, H, F and threads; `scratch.bytes_for` tells their bytes.

    Raises:
        EStreamError: records of another layout.
    """

    numerics_profile: str
    operator: ClassVar[Callable[..., None]]
    scratch: ClassVar[Any]

    def __init__(self, record: RecordClass, route_capacity: int) -> None:
        self._check(record)
        self._temporaries = self.scratch(route_capacity, record.shape.hidden, record.shape.ffn, threads())
        self.nbytes: int = self._temporaries.nbytes

    @classmethod
    def bytes_for(cls, record: RecordClass, route_capacity: int, threads: int) -> int:
        """`nbytes` of a kernel of this size."""
        cls._check(record)
        needed: int = cls.scratch.bytes_for(route_capacity, record.shape.hidden, record.shape.ffn, threads)
        return needed

    def __call__(
        self, x: NDArray[np.float32], y: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass
    ) -> None:
        """See `experts.graph.ExpertKernel`."""
        planes = arena.addresses(binding.slot, record)
        shape, routes = record.shape, (binding.offsets, binding.token, binding.weight)
        type(self).operator(x, y, *routes, arena.memory, *planes, shape.hidden, shape.ffn, self._temporaries)

    @classmethod
    def _check(cls, record: RecordClass) -> None:
        other = sorted(set(record.shape.layouts) - {Q4})
        if other:
            raise EStreamError(
                f"profile {cls.numerics_profile} reads records of layout {Q4}, not {', '.join(other)}: "
                "pack the store with Q4_0 weights, or choose profile host-f32"
            )
