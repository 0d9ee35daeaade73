"""Products of gathered rows with one strip of 32 columns: the inner part of every host kernel."""

from __future__ import annotations

from estream_lab.kernels.arrays import F32
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.vector_ir import COLUMNS, MAX_ROWS, address, tile_kernel

ROW_BLOCK = 192
"""Rows of a tile of sums: 24 KB of fp32, beside which 16 KB of weights stay in the first-level cache."""

_DEPTH_BLOCK = 128  # inputs of a pass: 128 x 32 weights are 16 KB

_many = tile_kernel(MAX_ROWS)
_two = tile_kernel(2)
_one = tile_kernel(1)


@compiled
def add_rows(x: int, index: int, rows: int, ldx: int, w: int, depth: int, c: int, ldc: int) -> None:
    """Add to `rows` rows of a tile, however many: see `vector_ir.tile_kernel`, whose arguments these are."""
    r = 0
    while r + MAX_ROWS <= rows:
        _many(x, index + 4 * r, ldx, w, depth, c + 4 * r * ldc, ldc)
        r += MAX_ROWS
    while r + 2 <= rows:
        _two(x, index + 4 * r, ldx, w, depth, c + 4 * r * ldc, ldc)
        r += 2
    if r < rows:
        _one(x, index + 4 * r, ldx, w, depth, c + 4 * r * ldc, ldc)


@compiled
def strip_product(x: int, index: int, rows: int, ldx: int, w: int, depth: int, tile: F32) -> None:
    """tile[:rows] (rows, 32) = the rows ``x + index[r] * ldx`` times one strip w of (depth, 32) weights.

    x and w are addresses of float32 numbers, index one of int32 numbers. Cutting depth into passes changes nothing: a
    pass goes on from the sums that the last one stored.
    """
    for r in range(rows):
        for j in range(COLUMNS):
            tile[r, j] = 0
    for k in range(0, depth, _DEPTH_BLOCK):
        span = min(_DEPTH_BLOCK, depth - k)
        add_rows(x + 4 * k, index, rows, ldx, w + 4 * k * COLUMNS, span, address(tile), tile.shape[1])
