"""The weights that a register block reads: nibbles, taken apart in registers or before, in a panel."""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir

from estream_lab.kernels.apart import emitted
from estream_lab.kernels.bf16.dot import OCTETS, Dot
from estream_lab.kernels.host.vector_ir import COLUMNS
from estream_lab.kernels.layout import BLOCK_BYTES, NIBBLE_BYTES
from estream_lab.kernels.packed.weights import bring_ahead
from estream_lab.kernels.vectors import I16, I32, I64, floats_of_halves, load, loop, store, vector


def panel_block_bytes(dot: Dot) -> int:
    """Of a panel's block: weights as `Dot.apart` returns them, step by step and then column by column; fp32 scales."""
    return 4 * COLUMNS * (dot.steps + 1)


class Packed:
    """Weights of one packed block from a column on, taken apart in registers."""

    def __init__(self, builder: ir.IRBuilder, dot: Dot, block: ir.Value, column: ir.Value) -> None:
        self._builder, self._dot = builder, dot
        self._words = builder.add(block, builder.shl(column, ir.Constant(I64, 2)))
        self._halves = builder.add(block, builder.shl(column, ir.Constant(I64, 1)))
        self._read: dict[int, ir.Value] = {}

    @staticmethod
    def block_bytes(dot: Dot) -> int:
        """Bytes from a block to the next."""
        return BLOCK_BYTES

    @staticmethod
    def ahead(builder: ir.IRBuilder, block: ir.Value) -> None:
        """Have a later block brought."""
        bring_ahead(builder, block, BLOCK_BYTES)

    def step(self, step: int, v: int) -> ir.Value:
        """Of the v-th vector of columns, as `Dot.add` takes them."""
        octet, first = divmod(step, self._dot.steps // OCTETS)
        if not first:
            place = 4 * (octet * COLUMNS + v * self._dot.lanes)
            self._read[v] = load(self._builder, self._words, place, vector(I32, self._dot.lanes))
        return self._dot.apart(self._builder, self._read[v], step)

    def scales(self, v: int) -> ir.Value:
        """The fp32 scales of the v-th vector of columns."""
        place = NIBBLE_BYTES + 2 * v * self._dot.lanes
        halves = load(self._builder, self._halves, place, vector(I16, self._dot.lanes), align=2)
        return floats_of_halves(self._builder, halves, self._dot.native_half)


class Panel:
    """Weights of one block of a panel from a column on."""

    def __init__(self, builder: ir.IRBuilder, dot: Dot, block: ir.Value, column: ir.Value) -> None:
        self._builder, self._dot = builder, dot
        self._words = builder.add(block, builder.shl(column, ir.Constant(I64, 2)))

    @staticmethod
    def block_bytes(dot: Dot) -> int:
        """See `Packed`."""
        return panel_block_bytes(dot)

    @staticmethod
    def ahead(builder: ir.IRBuilder, block: ir.Value) -> None:
        """Nothing: a panel is in the cache."""

    def step(self, step: int, v: int) -> ir.Value:
        """See `Packed`."""
        return load(self._builder, self._words, 4 * (step * COLUMNS + v * self._dot.lanes), self._dot.weights)

    def scales(self, v: int) -> ir.Value:
        """See `Packed`."""
        return load(self._builder, self._words, 4 * (self._dot.steps * COLUMNS + v * self._dot.lanes), self._dot.sums)


Source = Packed | Panel
"""Where a product takes its weights from."""


def panel_decoder(dot: Dot) -> Any:
    """An intrinsic ``decode(w, blocks, panel)`` that takes `blocks` >= 1 packed blocks of a strip apart.

    w and panel are addresses; the panel has room for ``blocks * panel_block_bytes(dot)`` bytes.
    """

    return emitted(partial(emit_decode, dot))


def emit_decode(dot: Dot, builder: ir.IRBuilder, w: ir.Value, blocks: ir.Value, panel: ir.Value) -> None:
    """Emit the decoder: see `panel_decoder`."""
    steps = ((w, ir.Constant(I64, BLOCK_BYTES)), (panel, ir.Constant(I64, panel_block_bytes(dot))))
    with loop(builder, blocks, *steps) as (block, out):
        Packed.ahead(builder, block)
        packed = Packed(builder, dot, block, ir.Constant(I64, 0))
        for v in range(COLUMNS // dot.lanes):
            for step in range(dot.steps):
                store(builder, packed.step(step, v), out, 4 * (step * COLUMNS + v * dot.lanes))
            store(builder, packed.scales(v), out, 4 * (dot.steps * COLUMNS + v * dot.lanes))
