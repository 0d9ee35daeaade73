"""Expert graphs with each step of the device's arithmetic switched on by itself, and kernels that are watched."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from estream_lab.experts.arena import Arena
from estream_lab.experts.binding import Binding
from estream_lab.experts.executors import Executor
from estream_lab.experts.graph import ExpertKernel
from estream_lab.experts.shape import RecordClass
from estream_lab.kernels.exact.matmul import Operands
from estream_lab.kernels.exact.switches import Switches, Weights, switched_bank
from estream_lab.kernels.layout import unpack_f32, unpack_q4_32x32
from estream_lab.kernels.profiles import PROFILES

Watcher = Callable[[NDArray[np.float32], Binding, Arena, RecordClass], None]
"""Told what a kernel is called with, before it runs."""


class SwitchedKernel:
    """`kernels.exact.switches` over the slots of an arena, in either layout: an `ExpertKernel`.

    With the scatter switch off, an invocation's sum is rounded once. So results depend on how a layer is cut into
    invocations, unless one covers the whole layer.

    Args:
        record: the record class that it reads.
        route_capacity: C, the most records of one call.
        switches: which steps compute as the device does.
    """

    def __init__(self, record: RecordClass, route_capacity: int, *, switches: Switches) -> None:
        self._switches = switches
        self.numerics_profile = label(switches)
        self.nbytes: int = self.bytes_for(record, route_capacity, 1)

    @staticmethod
    def bytes_for(record: RecordClass, route_capacity: int, threads: int) -> int:
        """`nbytes` of a kernel of this size: an expert as it is stored, one of its projections twice in float64, rows.

        Rows are float64, too: those of all records as results, those of one slot in every stage between. Enough for
        whatever is switched on, an accumulator's own room included.
        """
        hidden, ffn = record.shape.hidden, record.shape.ffn
        accumulators = max(Operands.bytes_for(each) for each in PROFILES.values())
        return 8 * (4 * hidden * ffn + route_capacity * (4 * hidden + 6 * ffn)) + accumulators

    def __call__(
        self, x: NDArray[np.float32], y: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass
    ) -> None:
        """See `ExpertKernel`."""
        experts = _Unpacked(arena, record, binding.slot)
        switched_bank(x, y, binding.offsets, binding.token, binding.weight, experts, self._switches)


@dataclass(frozen=True)
class _Unpacked:
    """The experts in an arena's slots, each unpacked when it is asked for: `kernels.exact.switches.Experts`."""

    arena: Arena
    record: RecordClass
    slots: NDArray[np.int32]  # (S,)

    def __len__(self) -> int:
        return len(self.slots)

    def __getitem__(self, slot: int, /) -> tuple[Weights, Weights, Weights]:
        return arena_weights(self.arena, self.record, int(self.slots[slot]))


def label(switches: Switches) -> str:
    """What a result says of its numerics."""
    return "switched: " + (", ".join(switches.names) or "all off")


def arena_weights(arena: Arena, record: RecordClass, slot: int) -> tuple[Weights, Weights, Weights]:
    """gate, up and down of the expert in a slot, as its layout holds them."""
    hidden, ffn = record.shape.hidden, record.shape.ffn
    addresses = arena.addresses(np.array([slot], np.int32), record)
    sizes = ((ffn, hidden), (ffn, hidden), (hidden, ffn))
    gate, up, down = (
        (unpack_f32 if layout == "f32" else unpack_q4_32x32)(arena.memory[int(at[0]) :], *size)
        for layout, at, size in zip(record.shape.layouts, addresses, sizes, strict=True)
    )
    return gate, up, down


def switched(switches: Switches) -> Executor:
    """An executor with these switches on; reads stores of either quantisation."""
    kernel = partial(SwitchedKernel, switches=switches)
    return Executor("switched", label(switches), kernel, SwitchedKernel.bytes_for, "f32")


def watched(executor: Executor, watcher: Watcher) -> Executor:
    """The same executor, whose kernels tell a watcher what they are called with."""

    def kernel(record: RecordClass, route_capacity: int) -> ExpertKernel:
        return _Watched(executor.kernel(record, route_capacity), watcher)

    return replace(executor, name="watched", kernel=kernel, stepped=None, most_steps=None)


class _Watched:
    """An `ExpertKernel` around another."""

    def __init__(self, kernel: ExpertKernel, watcher: Watcher) -> None:
        self._kernel, self._watcher = kernel, watcher
        self.numerics_profile, self.nbytes = kernel.numerics_profile, kernel.nbytes

    def __call__(
        self, x: NDArray[np.float32], y: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass
    ) -> None:
        """See `ExpertKernel`."""
        self._watcher(x, binding, arena, record)
        self._kernel(x, y, binding, arena, record)
