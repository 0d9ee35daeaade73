"""Panels of 16 columns: the layout that q4-32x32 is compared with, and a micro-kernel made for it.

A panel has the Q4_0 weights of 16 output columns and all K inputs: K / 32 times 256 bytes of nibbles, in K quads x
columns as in `kernels.layout`, then K / 32 times 16 fp16 scales. A register block is twice as tall as that of a strip
of 32 columns and half as wide. Operations, order and so results are those of `kernels.int8.product`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from estream_lab.kernels import vectors as v
from estream_lab.kernels.arrays import F32
from estream_lab.kernels.host.vector_ir import address
from estream_lab.kernels.int8.dot import DOTS
from estream_lab.kernels.int8.features import variant
from estream_lab.kernels.int8.records import CORRECTION, RECORD_BYTES, SCALE
from estream_lab.kernels.int8.weights import QUADS
from estream_lab.kernels.packed.lane import cut
from estream_lab.kernels.packed.weights import AHEAD

PANEL = 16
"""Columns of a panel."""

_NIBBLES, _SCALES = 16 * PANEL, 2 * PANEL  # bytes of a block of 32 inputs
PANEL_BLOCK_BYTES = _NIBBLES + _SCALES
_strip = DOTS[variant().name]
_DOT = replace(_strip, rows=_strip.rows * _strip.width // PANEL, vectors=PANEL // _strip.lanes)
ROWS = _DOT.rows
"""Of the largest register block."""


def pack_panels(q: NDArray[np.uint8], d: NDArray[np.float16]) -> NDArray[np.uint8]:
    """The bytes of a projection: q (N, K) uint8 in 0..15 and d (N, K / 32) float16, N a multiple of 16.

    Returns:
        (N / 16, K / 32 * 288) uint8.
    """
    n, k = q.shape
    blocks = k // 32
    quads = q.reshape(n // PANEL, PANEL, blocks, QUADS // 2, 2, 4)  # panel, column, block, pair, low or high, input
    both = (quads[..., 0, :] | quads[..., 1, :] << 4).transpose(0, 2, 3, 1, 4)  # panel, block, pair, column, input
    scales = np.ascontiguousarray(d.reshape(n // PANEL, PANEL, blocks).transpose(0, 2, 1)).view(np.uint8)
    return np.concatenate([both.reshape(n // PANEL, -1), scales.reshape(n // PANEL, -1)], axis=1)


@intrinsic
def _product(typing_context: Any, rows: Any, x: Any, w: Any, blocks: Any, c: Any) -> Any:
    """``c (rows, 16) = x @ w`` for 1 <= rows <= ROWS; addresses of records, of a panel, and of float32."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wanted, *rest = arguments
        done = builder.append_basic_block("multiplied")
        choice = builder.switch(wanted, done)
        for fixed in range(1, ROWS + 1):
            case = builder.append_basic_block(f"rows{fixed}")
            choice.add_case(ir.Constant(v.I64, fixed), case)
            builder.position_at_end(case)
            _emit(builder, fixed, *rest)
            builder.branch(done)
        builder.position_at_end(done)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), codegen


def _emit(builder: ir.IRBuilder, rows: int, x: ir.Value, w: ir.Value, blocks: ir.Value, c: ir.Value) -> None:
    floats, lanes = v.vector(v.F32, _DOT.lanes), range(_DOT.vectors)
    places = [(r, part) for r in range(rows) for part in lanes]
    with builder.goto_entry_block():
        sums = {place: builder.alloca(floats) for place in places}
    for place in places:
        builder.store(v.constant(floats, 0.0), sums[place])
    scales = builder.add(w, builder.mul(blocks, ir.Constant(v.I64, _NIBBLES)))
    steps = [(x, rows * RECORD_BYTES), (w, _NIBBLES), (scales, _SCALES)]
    with v.loop(builder, blocks, *((a, ir.Constant(v.I64, step)) for a, step in steps)) as (x_block, quads, scale):
        v.prefetch(builder, quads, AHEAD * _NIBBLES, _NIBBLES)
        v.prefetch(builder, scale, AHEAD * _SCALES, _SCALES)
        _emit_block(builder, rows, x_block, quads, scale, sums)
    for r, part in places:
        v.store(builder, builder.load(sums[r, part]), c, 4 * (PANEL * r + _DOT.lanes * part))


def _emit_block(
    builder: ir.IRBuilder, rows: int, x: ir.Value, quads: ir.Value, scale: ir.Value, sums: dict[tuple[int, int], Any]
) -> None:
    def of_row(r: int, offset: int, kind: ir.Type) -> ir.Value:
        return v.broadcast(builder, v.load(builder, x, r * RECORD_BYTES + offset, kind), _DOT.lanes)

    parts = range(_DOT.vectors)
    products = {(r, p): _DOT.start(builder, of_row(r, CORRECTION, v.I32)) for r in range(rows) for p in parts}
    low = v.constant(_DOT.words, 0x0F0F0F0F)
    for pair in range(QUADS // 2):
        both = [v.load(builder, quads, 4 * (pair * PANEL + p * _DOT.lanes), _DOT.words) for p in parts]
        for half in range(2):
            nibbles = [builder.lshr(word, v.constant(_DOT.words, 4 * half)) for word in both]
            w = [_DOT.weights(builder, builder.and_(word, low)) for word in nibbles]
            for r in range(rows):
                activations = of_row(r, 4 * (2 * pair + half), v.I32)
                for p in parts:
                    products[r, p] = _DOT.step(builder, products[r, p], w[p], activations)
    for p in parts:
        halves = v.load(builder, scale, 2 * p * _DOT.lanes, v.vector(v.I16, _DOT.lanes), align=2)
        column = v.floats_of_halves(builder, halves, _DOT.native_half)
        for r in range(rows):
            row = of_row(r, SCALE, v.F32)
            exact = builder.sitofp(_DOT.finish(builder, products[r, p]), row.type)
            total = v.fma(builder, exact, builder.fmul(column, row), builder.load(sums[r, p]))
            builder.store(total, sums[r, p])


@intrinsic
def bring_panel(typing_context: Any, w: Any) -> Any:
    """Have the first blocks of a panel at an address brought from memory."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        v.prefetch(builder, arguments[0], 0, AHEAD * _NIBBLES)
        return context.get_dummy_value()

    return types.void(types.intp), codegen


@njit(nogil=True)
def panel_product(x: int, rows: int, w: int, blocks: int, tile: F32) -> None:
    """tile[: rows * 16] as (rows, 16) = rows of records times one panel; x and w are addresses.

    Records lie as those of a lane whose largest register block has `ROWS` rows.
    """
    size, end = cut(rows, ROWS)
    r = 0
    while r < rows:
        some = size + (r < end)
        _product(some, x + RECORD_BYTES * r * blocks, w, blocks, address(tile) + 4 * PANEL * r)
        r += some
