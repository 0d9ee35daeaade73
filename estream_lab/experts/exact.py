"""The exact kernel: an expert graph's invocation as the device computes it (docs/numerics.md)."""

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.experts.arena import Arena
from estream_lab.experts.binding import Binding
from estream_lab.experts.order_steps import StepRecorder
from estream_lab.experts.shape import RecordClass
from estream_lab.kernels.exact import ExactOperator


class ExactKernel:
    """The exact operator for one shape class and capacity: an `ExpertKernel`.

    Args:
        record: the record class that it reads; q4-32x32.
        route_capacity: C, the most records of one call.
        steps: takes the steps of each invocation.
        profile_name: a numerics profile.
        vtcm_bytes: capacity of on-chip memory.

    Raises:
        EStreamError: records of another layout, no such profile, or a shape that doesn't fit the capacity.
    """

    def __init__(
        self,
        record: RecordClass,
        route_capacity: int,
        steps: StepRecorder | None = None,
        *,
        profile_name: str,
        vtcm_bytes: int,
    ) -> None:
        shape = record.shape
        if set(shape.layouts) != {"q4-32x32"}:
            others = ", ".join(sorted(set(shape.layouts) - {"q4-32x32"}))
            raise EStreamError(
                f"the exact executor reads records in q4-32x32, not {others}: pack the model with --quant q4_0"
            )
        self._operator = ExactOperator(shape.hidden, shape.ffn, route_capacity, profile_name, vtcm_bytes)
        self._steps = steps
        self.numerics_profile = profile_name
        self.nbytes: int = self._operator.nbytes

    @staticmethod
    def bytes_for(record: RecordClass, route_capacity: int, threads: int, *, profile_name: str, vtcm_bytes: int) -> int:
        """`nbytes` of a kernel of this size."""
        shape = record.shape
        return ExactOperator.bytes_for(shape.hidden, shape.ffn, route_capacity, threads, profile_name, vtcm_bytes)

    @staticmethod
    def most_steps(record: RecordClass, route_capacity: int, slots: int, records: int, *, vtcm_bytes: int) -> int:
        """No more steps than this for so many records in so many slots."""
        shape = record.shape
        return ExactOperator.most_steps(shape.hidden, shape.ffn, route_capacity, vtcm_bytes, slots, records)

    def __call__(
        self, x: NDArray[np.float32], y: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass
    ) -> None:
        """See `ExpertKernel`."""
        listener = None if self._steps is None else self._steps.listener(binding.slot)
        gate, up, down = arena.addresses(binding.slot, record)
        planes = (arena.memory, gate, up, down)
        self._operator(x, y, binding.offsets, binding.token, binding.weight, *planes, listener)
