"""The shared expert graph: built once per shape class, invoked with routes and addresses (paper sections 1 to 3)."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.experts.arena import Arena
from estream_lab.experts.binding import Binding
from estream_lab.experts.shape import RecordClass
from estream_lab.kernels import host


class ExpertKernel(Protocol):
    """What a graph is made of on a lane: Y[t] += alpha * Wd(silu(Wg x) * (Wu x)) for the records of a bank's slots."""

    numerics_profile: str
    nbytes: int  # of its temporaries

    def __call__(
        self, x: NDArray[np.float32], y: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass
    ) -> None:
        """Add the records of ``binding`` into ``y``; x and y are float32 (T, H)."""
        ...


class HostKernel:
    """The host's fp32 kernel with all of its temporaries, for one shape class and capacity.

    Args:
        record: the record class that it reads.
        route_capacity: C, the most records of one call.
    """

    numerics_profile = "host-f32"

    def __init__(self, record: RecordClass, route_capacity: int) -> None:
        shape = record.shape
        if len(set(shape.layouts)) != 1:
            raise EStreamError(f"the host kernel reads records of one layout, not {', '.join(shape.layouts)}")
        self._scratch = host.Scratch(route_capacity, shape.hidden, shape.ffn, host.threads())
        self.nbytes: int = self._scratch.nbytes

    @staticmethod
    def bytes_for(record: RecordClass, route_capacity: int, threads: int) -> int:
        """`nbytes` of a kernel of this size."""
        return host.Scratch.bytes_for(route_capacity, record.shape.hidden, record.shape.ffn, threads)

    def __call__(
        self, x: NDArray[np.float32], y: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass
    ) -> None:
        """See `ExpertKernel`."""
        gate, up, down = arena.addresses(binding.slot, record)
        shape = record.shape
        host.expert_bank(
            x,
            y,
            binding.offsets,
            binding.token,
            binding.weight,
            arena.memory,
            gate,
            up,
            down,
            shape.hidden,
            shape.ffn,
            shape.layouts[0],
            self._scratch,
        )


@dataclass
class GraphCounts:
    """How often graphs were built and invoked: one build per shape, whatever the experts, layers and routes."""

    builds: int = 0
    invocations: int = 0
    routes: int = field(default=0)


class ExpertGraph:
    """One graph for every expert of a shape class; topology and capacities fixed, routes and addresses bound per call.

    Args:
        record: the shape class, with the strides of its operands.
        arena: the parameter planes that slots address.
        kernel: the lane's kernel.
        route_capacity: C; more routes are split into ceil(R / C) invocations.
        max_tokens: T_max, the most source rows.
        counts: shared counters of the lane.
    """

    def __init__(
        self,
        record: RecordClass,
        arena: Arena,
        kernel: ExpertKernel,
        route_capacity: int,
        max_tokens: int,
        counts: GraphCounts,
    ) -> None:
        if route_capacity < 1 or max_tokens < 1:
            raise ValueError(f"capacities must be positive, not C = {route_capacity} and T_max = {max_tokens}")
        if record.stride > arena.stride:
            raise ValueError(f"a record of {record.stride} bytes doesn't fit a slot of {arena.stride}")
        self._record, self._arena, self._kernel = record, arena, kernel
        self.route_capacity, self.max_tokens, self._counts = route_capacity, max_tokens, counts
        counts.builds += 1

    @property
    def nbytes(self) -> int:
        """Bytes of the kernel's temporaries."""
        return self._kernel.nbytes

    def invoke(self, x: NDArray[np.float32], y: NDArray[np.float32], binding: Binding) -> int:
        """Evaluate exactly the routes of ``binding``: Y[t] += alpha * expert(X[t]).

        Args:
            x: float32 (T, H), T <= T_max.
            y: float32 (T, H), added into.
            binding: the records of one bank; every slot that has records must be ready.

        Returns:
            How many invocations it took: ceil(R / C), 0 where there is no record.
        """
        hidden = self._record.shape.hidden
        if x.shape != y.shape or x.shape[1] != hidden or x.shape[0] > self.max_tokens:
            raise ValueError(f"x {x.shape} and y {y.shape} don't fit a graph of {self.max_tokens} rows of {hidden}")
        parts = binding.split(self.route_capacity) if len(binding) else []
        for part in parts:
            self._kernel(x, y, part, self._arena, self._record)
            self._counts.invocations += 1
            self._counts.routes += len(part)
        return len(parts)
