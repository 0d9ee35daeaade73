"""Products of gathered rows with one strip of 32 columns: the inner part of every host kernel."""

from __future__ import annotations

from numba import njit

from estream_lab.kernels.host.vector_ir import COLUMNS, MAX_ROWS, tile_kernel

ROW_BLOCK = 192
"""Rows of a tile of sums: 24 KB of fp32, beside which 16 KB of weights stay in the first-level cache."""

_DEPTH_BLOCK = 128  # inputs of a pass: 128 x 32 weights are 16 KB

_many = tile_kernel(MAX_ROWS)
_two = tile_kernel(2)
_one = tile_kernel(1)


@njit(nogil=True, cache=True, error_model="numpy")
def add_rows(x, index, first, rows, x0, ldx, w, w0, ldw, depth, c, c0, ldc):
    """c (rows, 32) += x[index[first : first + rows], :depth] @ w (depth, 32); see `vector_ir.tile_kernel`.

    Every sum is one chain of fused multiply-adds over ascending k, starting from what c holds.
    """
    r = 0
    while r + MAX_ROWS <= rows:
        _many(x, index, first + r, x0, ldx, w, w0, ldw, depth, c, c0 + r * ldc, ldc)
        r += MAX_ROWS
    while r + 2 <= rows:
        _two(x, index, first + r, x0, ldx, w, w0, ldw, depth, c, c0 + r * ldc, ldc)
        r += 2
    if r < rows:
        _one(x, index, first + r, x0, ldx, w, w0, ldw, depth, c, c0 + r * ldc, ldc)


@njit(nogil=True, cache=True, error_model="numpy")
def strip_product(x, index, first, rows, ldx, w, w0, depth, tile):
    """tile[:rows] (rows, 32) = x[index[first : first + rows]] @ strip, the strip being (depth, 32) floats of w at w0.

    Cutting depth into passes changes nothing: a pass goes on from the sums that the last one stored.
    """
    tile[:rows] = 0
    for k in range(0, depth, _DEPTH_BLOCK):
        span = min(_DEPTH_BLOCK, depth - k)
        add_rows(x, index, first, rows, k, ldx, w, w0 + k * COLUMNS, COLUMNS, span, tile, 0, COLUMNS)
