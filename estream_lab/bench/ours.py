"""Our own rows: a layer's experts in one arena, run in this process.

A timed call goes from activations and routes to y, as a peer's does: binding the routes to slots is part of it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.bench.inputs import Inputs
from estream_lab.bench.rows import Job, Prepared
from estream_lab.bench.weights import Dequantised
from estream_lab.experts.arena import Arena
from estream_lab.experts.binding import Binder, Binding
from estream_lab.experts.executors import host_profile
from estream_lab.experts.shape import PAGE_BYTES
from estream_lab.kernels import bf16, int8
from estream_lab.kernels.host import Scratch, expert_bank, set_threads
from estream_lab.kernels.layout import Q4, pack_q4_32x32, projection_bytes
from estream_lab.routing import Routes

Activations = NDArray[np.float32]
Bank = Callable[[Activations, Activations, Binding], None]
"""Add one bank's results for x (T, H) to y (T, H)."""


@dataclass(frozen=True)
class Slots:
    """All experts of a layer in q4-32x32: bytes of the arena, and (E,) int64 offsets of gate, up and down in it."""

    arena: NDArray[np.uint8]
    gate: NDArray[np.int64]
    up: NDArray[np.int64]
    down: NDArray[np.int64]

    @classmethod
    def pack(cls, job: Job) -> "Slots":
        """Pack the distinct experts once and repeat them through the arena."""
        weights, experts = job.weights, job.weights.shape.experts
        sizes = [projection_bytes(Q4, *projection) for projection in weights.shape.projections]
        stride = -(-sum(sizes) // PAGE_BYTES) * PAGE_BYTES
        arena = Arena(banks=1, group_size=experts, stride=stride).memory
        starts = np.cumsum([0, *sizes[:2]])
        slots = arena.reshape(experts, stride)
        for expert in range(weights.distinct):
            for projection, (start, size) in enumerate(zip(starts, sizes, strict=True)):
                packed = pack_q4_32x32(*weights.quantised(expert, projection))
                slots[expert :: weights.distinct, start : start + size] = packed
        gate, up, down = (np.arange(experts, dtype=np.int64) * stride + start for start in starts)
        return cls(arena, gate, up, down)


@dataclass(frozen=True)
class Lane:
    """One of our kernels: its name, the arithmetic of its products, and how it is made ready for a job."""

    name: str
    arithmetic: str
    make: Callable[[Job, Slots], Bank]


def fp32(job: Job, slots: Slots) -> Bank:
    """`kernels.host.expert_bank`: weights decoded to fp32 strips."""
    shape = job.weights.shape
    scratch = Scratch(job.tokens * shape.top_k, shape.hidden, shape.ffn, job.threads)

    def run(x: Activations, y: Activations, bound: Binding) -> None:
        expert_bank(
            x, y, bound.offsets, bound.token, bound.weight, slots.arena, slots.gate, slots.up, slots.down,
            shape.hidden, shape.ffn, Q4, scratch,
        )  # fmt: skip

    return run


def packed(kernels: Any, job: Job, slots: Slots) -> Bank:
    """`expert_bank` of a package of kernels: int8 quantises activations in blocks of 32, bf16 rounds them."""
    shape = job.weights.shape
    scratch = kernels.Scratch(job.tokens * shape.top_k, shape.hidden, shape.ffn, job.threads)

    def run(x: Activations, y: Activations, bound: Binding) -> None:
        kernels.expert_bank(
            x, y, bound.offsets, bound.token, bound.weight, slots.arena, slots.gate, slots.up, slots.down,
            shape.hidden, shape.ffn, scratch,
        )  # fmt: skip

    return run


PACKED = {"int8": int8, "bf16": bf16}
LANES = (
    *(Lane(f"host {arithmetic}", arithmetic, partial(packed, kernels)) for arithmetic, kernels in PACKED.items()),
    Lane("host fp32", "fp32", fp32),
)
"""Our rows; the first is what others are compared with."""


class OurRow:
    """A row of ours: see `rows.Row`."""

    implementation, quant, bytes_per_weight, copies = "estream", "q4_0", 18 / 32, 1
    process: int | None = None

    def __init__(self, lane: Lane) -> None:
        self._lane, self.name, self.default = lane, lane.name, f"host-{lane.arithmetic}" == host_profile(Q4)
        self._bank: Bank | None = None

    def prepare(self, job: Job) -> Prepared:
        """See `Row`."""
        shape = job.weights.shape
        set_threads(job.threads)
        self._binder = Binder(job.tokens * shape.top_k, 0, shape.experts)
        self._placement = np.arange(shape.experts, dtype=np.int32)
        self._token = np.repeat(np.arange(job.tokens, dtype=np.int32), shape.top_k)
        self._y = np.zeros((job.tokens, shape.hidden), np.float32)
        self._bank = self._lane.make(job, Slots.pack(job))
        kernels = PACKED.get(self._lane.arithmetic)
        notes = {"variant": kernels.description()} if kernels else {}
        return Prepared(self._lane.arithmetic, False, notes)

    def run(self, inputs: Inputs) -> float:
        """See `Row`."""
        assert self._bank is not None
        routes = Routes.over(self._token, inputs.expert.reshape(-1), inputs.weight.reshape(-1))
        start = perf_counter()
        self._y.fill(0)
        self._bank(inputs.x, self._y, self._binder.bind(routes, self._placement, 0, len(self._placement)))
        return perf_counter() - start

    def output(self, inputs: Inputs) -> NDArray[np.float32]:
        """See `Row`."""
        self.run(inputs)
        return self._y

    def weights(self) -> Dequantised:
        """Never asked for: ours are the Q4_0 ones."""
        raise NotImplementedError

    def release(self) -> None:
        """See `Row`."""
        self._bank = None


def our_rows() -> list[OurRow]:
    """One for each of our lanes."""
    return [OurRow(lane) for lane in LANES]
