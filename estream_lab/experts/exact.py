"""The exact kernel: an expert graph's invocation as the device computes it (docs/numerics.md)."""

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.experts.arena import Arena
from estream_lab.experts.binding import Binding
from estream_lab.experts.order_steps import StepRecorder
from estream_lab.experts.shape import ExpertShape, RecordClass
from estream_lab.kernels.exact import ExactOperator
from estream_lab.kernels.layout import Q4
from estream_lab.kernels.vtcm import plan_tiles
from estream_lab.trace import Provenance


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
        shape = _readable(record)
        self._operator = ExactOperator(shape.hidden, shape.ffn, route_capacity, profile_name, vtcm_bytes)
        self._steps = steps
        self.numerics_profile = profile_name
        self.nbytes: int = self._operator.nbytes

    @staticmethod
    def bytes_for(record: RecordClass, route_capacity: int, threads: int, *, profile_name: str, vtcm_bytes: int) -> int:
        """`nbytes` of a kernel of this size.

        Raises:
            EStreamError: what making the kernel would be refused for.
        """
        shape = _readable(record)
        return ExactOperator.bytes_for(shape.hidden, shape.ffn, route_capacity, threads, profile_name, vtcm_bytes)

    @staticmethod
    def most_steps(record: RecordClass, route_capacity: int, slots: int, records: int, *, vtcm_bytes: int) -> int:
        """No more steps than this for so many records in so many slots."""
        shape = record.shape
        return ExactOperator.most_steps(shape.hidden, shape.ffn, route_capacity, vtcm_bytes, slots, records)

    @staticmethod
    def provenance(record: RecordClass, route_capacity: int, *, vtcm_bytes: int) -> Provenance:
        """VTCM's capacity and the tile plan that results come from: no bit of them depends on it, their steps do."""
        plan = plan_tiles(record.shape.hidden, record.shape.ffn, route_capacity, vtcm_bytes)
        return {
            "vtcm_bytes": plan.vtcm_bytes,
            "vtcm_used_bytes": plan.used_bytes,
            "tile_rows": plan.rows,
            "ffn_panel_columns": plan.ffn_columns,
            "hidden_panel_columns": plan.hidden_columns,
        }

    def __call__(
        self, x: NDArray[np.float32], y: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass
    ) -> None:
        """See `ExpertKernel`."""
        listener = None if self._steps is None else self._steps.listener(binding.slot)
        gate, up, down = arena.addresses(binding.slot, record)
        planes = (arena.memory, gate, up, down)
        self._operator(x, y, binding.offsets, binding.token, binding.weight, *planes, listener)


def _readable(record: RecordClass) -> ExpertShape:
    """The shape of records in the layout that the device reads; any other is refused."""
    others = sorted(set(record.shape.layouts) - {Q4})
    if others:
        raise EStreamError(
            f"the exact executor reads records in {Q4}, not {', '.join(others)}: pack the model with --quant q4_0"
        )
    return record.shape
