"""The vector stages: gather with fp32 to fp16, SwiGLU and weighted scatter-add (docs/numerics.md, steps 1, 4 and 6)."""

from __future__ import annotations

import numpy as np

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.arrays import F32, I32, U16, U32, Integer
from estream_lab.kernels.exact.half import (
    IEEE_LARGEST,
    clamped,
    exponent_of,
    half_code,
    half_of_single,
    significand_of,
    value,
)
from estream_lab.kernels.exact.silu import silu_table
from estream_lab.kernels.exact.tiles import TILE, tile_row
from estream_lab.kernels.layout import STRIP

_CODES = np.arange(1 << 16, dtype=np.uint16)
CLAMPED_VALUES = value(np.where(_CODES & 0x7C00 == 0x7C00, _CODES & 0x8000 | IEEE_LARGEST, _CODES))
"""(65536,) float32: what a vector stage takes each code for."""
CLAMPED_VALUES.flags.writeable = False


def gather(x: F32) -> U16:
    """fp32 to fp16 codes, ties to even, +-65504 where it would overflow; any shape.

    Raises:
        ValueError: a value that isn't finite.
    """
    if not np.isfinite(x).all():
        raise ValueError("activations that are not finite: fp16 on the device has no code for them")
    flat = np.ascontiguousarray(x, np.float32).reshape(-1)
    out = np.empty(len(flat), np.uint16)
    _gather_codes(flat.view(np.uint32), out)
    return out.reshape(x.shape)


def swiglu(gate: U16, up: U16) -> U16:
    """silu(gate) * up of codes; arrays of one shape."""
    out = np.empty(gate.size, np.uint16)
    _swiglu_codes(np.ascontiguousarray(gate).reshape(-1), np.ascontiguousarray(up).reshape(-1), silu_table(), out)
    return out.reshape(gate.shape)


def scatter_add(y: F32, out: U16, token: I32, weight: F32) -> None:
    """y[token[i]] += weight[i] * out[i], in order of i, multiply then add.

    Args:
        y: (T, H) float32, added into.
        out: (n, H) uint16 codes.
        token: (n,) int32.
        weight: (n,) float32.
    """
    for i, t in enumerate(token):
        y[t] += weight[i] * CLAMPED_VALUES[out[i]]


@compiled
def _gather_codes(bits: U32, out: U16) -> None:
    for i in range(len(bits)):
        out[i] = half_of_single(bits[i], IEEE_LARGEST)


@compiled
def swiglu_code(gate: Integer, up: Integer, table: U16) -> Integer:
    """The code of silu(gate) * up."""
    s, u = np.int64(table[gate]), clamped(up)
    return half_code(
        (s ^ u) >> 15, significand_of(s) * significand_of(u), exponent_of(s) + exponent_of(u) - 50, IEEE_LARGEST
    )


@compiled
def _swiglu_codes(gate: U16, up: U16, table: U16, out: U16) -> None:
    for i in range(len(gate)):
        out[i] = swiglu_code(np.int64(gate[i]), np.int64(up[i]), table)


@compiled
def gather_tiles(x: U32, token: I32, rows: int, hidden: int, tiles: U16, begin: int, end: int) -> None:
    """Rows begin..end of the tiles: row i is row token[i] of x in fp16, and zero where i is not below `rows`.

    Args:
        x: (T * H,) uint32, bits of float32.
        token: int32, one for each of the rows.
        tiles: halfwords of activation tiles.
    """
    codes = np.empty(hidden, np.uint16)
    for row in range(begin, end):
        if row < rows:
            source = np.int64(token[row]) * hidden
            _gather_codes(x[source : source + hidden], codes)
        else:
            codes[:] = 0
        at = tile_row(row, 0, hidden)
        for h in range(hidden):
            tiles[at + h // STRIP * TILE + h % STRIP * 2] = codes[h]


@compiled
def swiglu_tiles(
    gate: U16, up: U16, rows: int, columns: int, table: U16, first_column: int, ffn: int, tiles: U16
) -> None:
    """SwiGLU of a panel, (rows x columns) output tiles, into its columns of the (rows x F) SwiGLU tiles."""
    row_tiles, across = (rows + STRIP - 1) // STRIP, columns // STRIP
    for row_tile in range(row_tiles):
        for tile in range(across):
            source = (row_tile * across + tile) * TILE
            target = (row_tile * (ffn // STRIP) + first_column // STRIP + tile) * TILE
            for i in range(TILE):
                tiles[target + i] = swiglu_code(np.int64(gate[source + i]), np.int64(up[source + i]), table)


@compiled
def scatter_tiles(
    out: U16, token: I32, weight: F32, first: int, rows: int, first_column: int, columns: int, hidden: int,
    values: F32, y: F32,
) -> None:  # fmt: skip
    """y[token] += weight * out for the rows of a panel of (rows x columns) output tiles; y is (T * H,)."""
    for row in range(rows):
        at = tile_row(row, 0, columns)
        t, a = np.int64(token[first + row]) * hidden + first_column, weight[first + row]
        for j in range(columns):
            product = a * values[out[at + j // STRIP * TILE + j % STRIP * 2]]
            y[t + j] = y[t + j] + product
