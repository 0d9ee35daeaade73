"""Products of gathered rows with one strip of 32 columns: the inner part of every host kernel."""

from __future__ import annotations

from estream_lab.kernels.arrays import F32
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.decode import decode_blocks
from estream_lab.kernels.host.tile_ir import rows_kernel
from estream_lab.kernels.host.vector_ir import COLUMNS, address
from estream_lab.kernels.layout import BLOCK_BYTES

ROW_BLOCK = 192
"""Rows of a tile of sums: 24 KB of fp32, beside which 16 KB of weights stay in the first-level cache."""

DEPTH_BLOCK = 128
"""Inputs of a pass: 128 x 32 weights are 16 KB of fp32."""

_add_fp32 = rows_kernel("fp32")
_add_bf16 = rows_kernel("bf16")


@compiled
def add_rows(x: int, index: int, rows: int, ldx: int, w: int, depth: int, c: int, ldc: int) -> None:
    """Add to `rows` rows of a tile, however many: see `tile_ir.rows_kernel`, whose arguments these are."""
    _add_fp32(x, index, rows, ldx, w, depth, c, ldc)


@compiled
def add_rows_bf16(x: int, index: int, rows: int, ldx: int, w: int, depth: int, c: int, ldc: int) -> None:
    """`add_rows` with weights in bf16."""
    _add_bf16(x, index, rows, ldx, w, depth, c, ldc)


@compiled
def _clear(tile: F32, rows: int) -> None:
    for r in range(rows):
        for j in range(COLUMNS):
            tile[r, j] = 0


@compiled
def strip_product(x: int, index: int, rows: int, ldx: int, w: int, depth: int, tile: F32) -> None:
    """tile[:rows] (rows, 32) = the rows ``x + index[r] * ldx`` times one strip w of (depth, 32) weights.

    x and w are addresses of float32 numbers, index one of int32 numbers. Cutting depth into passes changes nothing: a
    pass goes on from the sums that the last one stored.
    """
    _clear(tile, rows)
    for k in range(0, depth, DEPTH_BLOCK):
        span = min(DEPTH_BLOCK, depth - k)
        add_rows(x + 4 * k, index, rows, ldx, w + 4 * k * COLUMNS, span, address(tile), tile.shape[1])


@compiled
def strip_product_bf16(x: int, index: int, rows: int, ldx: int, w: int, depth: int, tile: F32) -> None:
    """`strip_product` with a strip of weights in bf16, in pairs of columns (`tile_ir.rows_kernel`): the same sums."""
    _clear(tile, rows)
    for k in range(0, depth, DEPTH_BLOCK):
        span = min(DEPTH_BLOCK, depth - k)
        add_rows_bf16(x + 4 * k, index, rows, ldx, w + 2 * k * COLUMNS, span, address(tile), tile.shape[1])


@compiled
def strip_product_q4(x: int, index: int, rows: int, ldx: int, w: int, depth: int, panel: int, tile: F32) -> None:
    """`strip_product` with the strip w in q4-32x32: the same sums as with its weights in fp32.

    `panel` is the address of room for ``DEPTH_BLOCK * 32`` floats, where each pass decodes its weights: they stay in
    the first-level cache.
    """
    _clear(tile, rows)
    for k in range(0, depth, DEPTH_BLOCK):
        span = min(DEPTH_BLOCK, depth - k)
        decode_blocks(w + k // COLUMNS * BLOCK_BYTES, span // COLUMNS, panel)
        add_rows(x + 4 * k, index, rows, ldx, panel, span, address(tile), tile.shape[1])
