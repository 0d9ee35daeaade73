"""The operator over a binding in plain NumPy, to be read and compared with: Y[t_i] += α_i · f_s(X[t_i])."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from estream_lab.experts.arena import Arena
from estream_lab.experts.binding import Binding
from estream_lab.experts.shape import RecordClass
from estream_lab.kernels.layout import unpack_f32, unpack_q4_32x32
from estream_lab.kernels.quant import dequantise_q4_0

Array = NDArray[np.float32]
Expert = Callable[[int, Array], Array]
"""What the expert in a slot makes of its rows: (slot, float32 (n, H)) → float32 (n, H)."""


def accumulate(x: Array, y: Array, binding: Binding, expert: Expert) -> None:
    """Add what the experts of `binding` make of rows of `x` into rows of `y`, both float32 (T, H).

    Slot by slot in the binding's order, records in route order. Slots without records are not visited. A token that
    comes twice in a slot adds up twice.
    """
    for place, slot in enumerate(binding.slot):
        records = slice(binding.offsets[place], binding.offsets[place + 1])  # Π[o_s : o_{s+1})
        token, weight = binding.token[records], binding.weight[records]
        if len(token):
            np.add.at(y, token, weight[:, None] * expert(int(slot), x[token]))  # (n, H); y[token] += would add once


def arena_experts(arena: Arena, record: RecordClass) -> Expert:
    """The experts that lie in an arena: f_s reads its three weights at the addresses of slot s.

    W^d (SiLU(W^g x) ⊙ W^u x), in float32.
    """
    shape = record.shape
    sizes = ((shape.ffn, shape.hidden), (shape.ffn, shape.hidden), (shape.hidden, shape.ffn))

    def expert(slot: int, rows: Array) -> Array:
        addresses = arena.addresses(np.array([slot], np.int32), record)
        gate, up, down = (
            _unpacked(layout, arena.memory[int(at[0]) :], *size)
            for layout, at, size in zip(shape.layouts, addresses, sizes, strict=True)
        )  # (F, H), (F, H), (H, F)
        g = rows @ gate.T  # (n, F)
        with np.errstate(over="ignore"):  # of a very negative gate: it closes
            silu = g / (1 + np.exp(-g))
        return np.asarray((silu * (rows @ up.T)) @ down.T, np.float32)  # (n, H)

    return expert


def _unpacked(layout: str, memory: NDArray[np.uint8], rows: int, depth: int) -> Array:
    if layout == "f32":
        return unpack_f32(memory, rows, depth)
    return dequantise_q4_0(*unpack_q4_32x32(memory, rows, depth))
