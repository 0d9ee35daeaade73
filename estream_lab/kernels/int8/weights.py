"""The weights that a register block reads: nibbles, taken apart in registers or before, in a panel, or whole bytes."""

from __future__ import annotations

from functools import partial
from typing import Any

from llvmlite import ir

from estream_lab.kernels.apart import emitted
from estream_lab.kernels.host.vector_ir import COLUMNS
from estream_lab.kernels.int8 import q8
from estream_lab.kernels.int8.dot import Dot
from estream_lab.kernels.layout import BLOCK_BYTES, NIBBLE_BYTES
from estream_lab.kernels.packed.weights import bring_ahead
from estream_lab.kernels.vectors import (
    F32,
    I16,
    I64,
    constant,
    floats_of_halves,
    load,
    loop,
    store,
    vector,
)

PANEL_BLOCK_BYTES = 1152
"""32 x 32 weights a byte each, quad by quad and then column by column as in a packed block; 32 fp32 scales."""

_PANEL_SCALES = 1024
QUADS = 8
"""Quads of a block."""


class Packed:
    """Weights of one packed block from a column on, taken apart in registers.

    A load has two quads: low nibbles, then high ones.
    """

    bytes = BLOCK_BYTES

    @staticmethod
    def ahead(builder: ir.IRBuilder, block: ir.Value) -> None:
        """Have a later block brought."""
        bring_ahead(builder, block, BLOCK_BYTES)

    def __init__(self, builder: ir.IRBuilder, dot: Dot, block: ir.Value, column: ir.Value) -> None:
        self._builder, self._dot = builder, dot
        self._words = builder.add(block, builder.shl(column, ir.Constant(I64, 2)))
        self._halves = builder.add(block, builder.shl(column, ir.Constant(I64, 1)))
        self._both: dict[int, ir.Value] = {}

    def quad(self, quad: int, v: int) -> ir.Value:
        """Words of the v-th vector of columns, as `Dot.step` takes them."""
        builder, words = self._builder, self._dot.words
        if quad % 2 == 0:
            self._both[v] = load(builder, self._words, 4 * (quad // 2 * COLUMNS + v * self._dot.lanes), words)
        nibbles = self._both[v] if quad % 2 == 0 else builder.lshr(self._both[v], constant(words, 4))
        return self._dot.weights(builder, builder.and_(nibbles, constant(words, 0x0F0F0F0F)))

    def scales(self, v: int) -> ir.Value:
        """The fp32 scales of the v-th vector of columns."""
        place = NIBBLE_BYTES + 2 * v * self._dot.lanes
        halves = load(self._builder, self._halves, place, vector(I16, self._dot.lanes), align=2)
        return floats_of_halves(self._builder, halves, self._dot.native_half)


class Panel:
    """Weights of one block of a panel from a column on."""

    bytes = PANEL_BLOCK_BYTES

    @staticmethod
    def ahead(builder: ir.IRBuilder, block: ir.Value) -> None:
        """Nothing: a panel is in the cache."""

    def __init__(self, builder: ir.IRBuilder, dot: Dot, block: ir.Value, column: ir.Value) -> None:
        self._builder, self._dot = builder, dot
        self._words = builder.add(block, builder.shl(column, ir.Constant(I64, 2)))

    def quad(self, quad: int, v: int) -> ir.Value:
        """See `Packed`."""
        return load(self._builder, self._words, 4 * (quad * COLUMNS + v * self._dot.lanes), self._dot.words)

    def scales(self, v: int) -> ir.Value:
        """See `Packed`."""
        return load(self._builder, self._words, _PANEL_SCALES + 4 * v * self._dot.lanes, vector(F32, self._dot.lanes))


class Octets:
    """Weights of one block of bytes (`q8`) from a column on. There is nothing to take apart: they need no panel."""

    bytes = q8.BLOCK_BYTES

    @staticmethod
    def ahead(builder: ir.IRBuilder, block: ir.Value) -> None:
        """See `Packed`."""
        bring_ahead(builder, block, q8.BLOCK_BYTES)

    def __init__(self, builder: ir.IRBuilder, dot: Dot, block: ir.Value, column: ir.Value) -> None:
        self._builder, self._dot = builder, dot
        self._words = builder.add(block, builder.shl(column, ir.Constant(I64, 2)))
        self._halves = builder.add(block, builder.shl(column, ir.Constant(I64, 1)))

    def quad(self, quad: int, v: int) -> ir.Value:
        """See `Packed`."""
        words = load(self._builder, self._words, 4 * (quad * COLUMNS + v * self._dot.lanes), self._dot.words)
        return self._dot.weights(self._builder, words)

    def scales(self, v: int) -> ir.Value:
        """See `Packed`."""
        place = q8.WEIGHT_BYTES + 2 * v * self._dot.lanes
        halves = load(self._builder, self._halves, place, vector(I16, self._dot.lanes), align=2)
        return floats_of_halves(self._builder, halves, self._dot.native_half)


Source = Packed | Panel | Octets
"""Where a product takes its weights from."""


def panel_decoder(dot: Dot) -> Any:
    """An intrinsic ``decode(w, blocks, panel)`` that takes `blocks` >= 1 packed blocks of a strip apart.

    w and panel are addresses; the panel has room for ``blocks * PANEL_BLOCK_BYTES`` bytes.
    """

    return emitted(partial(emit_decode, dot))


def emit_decode(dot: Dot, builder: ir.IRBuilder, w: ir.Value, blocks: ir.Value, panel: ir.Value) -> None:
    """Emit the decoder: see `panel_decoder`."""
    steps = ((w, ir.Constant(I64, BLOCK_BYTES)), (panel, ir.Constant(I64, PANEL_BLOCK_BYTES)))
    with loop(builder, blocks, *steps) as (block, out):
        Packed.ahead(builder, block)
        packed = Packed(builder, dot, block, ir.Constant(I64, 0))
        for v in range(COLUMNS // dot.lanes):
            for quad in range(QUADS):
                store(builder, packed.quad(quad, v), out, 4 * (quad * COLUMNS + v * dot.lanes))
            store(builder, packed.scales(v), out, _PANEL_SCALES + 4 * v * dot.lanes)
