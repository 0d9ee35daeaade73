"""Tiles taken apart for the accumulators, a column of tiles at a time, and results put back into tiles."""

from __future__ import annotations

import numpy as np

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.accumulate import LANES
from estream_lab.kernels.exact.arrays import F32, I32, U16, U32, Integer
from estream_lab.kernels.exact.half import half_code, half_of_single, operands, value
from estream_lab.kernels.layout import STRIP, TILE_BYTES

TILE = TILE_BYTES // 2
"""Halfwords of a tile."""

_FRACTION_BITS = 22
_PRODUCT_BIAS = 32


def _words() -> I32:
    """(65536,) int32: what the matrix unit takes each code for, m * 2^16 + e, e as 16 signed bits."""
    m, e = operands()
    return m.astype(np.int32) << 16 | e.view(np.uint16).astype(np.int32)


WORDS = _words()
VALUES = value(np.arange(1 << 16, dtype=np.uint16))
"""(65536,) float32: what each code stands for, those with exponent code 31 as ordinary numbers."""
for _table in (WORDS, VALUES):
    _table.flags.writeable = False


@compiled
def take_weights(tiles: U16, depth: int, k: int, columns: int, words: I32, out: I32, used: I32) -> None:
    """Take 32 inputs of some strips of weights apart.

    Args:
        tiles: halfwords of weight tiles, strip by strip.
        depth: K of a strip.
        k: the first input.
        columns: of all the strips.
        words: `WORDS`.
        out: (groups, 2 * size * LANES) int32, as `add_products` takes them.
        used: (groups, LANES) int32, -1 where a column's weights in the group aren't all zero, else 0.
    """
    size = out.shape[1] // (2 * LANES)
    used[:] = 0
    for group in range(len(out)):
        for j in range(columns):
            strip = tiles[j // STRIP * depth * STRIP + k * STRIP :]
            for i in range(size):
                place = group * size + i
                word = words[strip[place // 2 * 64 + j % STRIP * 2 + place % 2]]
                out[group, i * LANES + j] = word >> 16 << 4
                out[group, (size + i) * LANES + j] = np.int16(word)
                if word >> 16 != 0:
                    used[group, j] = -1


@compiled
def take_rows(tiles: U16, depth: int, first: int, rows: int, k: int, words: I32, out: I32) -> None:
    """Take 32 inputs of some rows of activations apart.

    Args:
        tiles: halfwords of activation tiles, row tile by row tile.
        depth: K.
        first: the first row, of a row tile. rows: how many.
        k: the first input.
        words: `WORDS`.
        out: (rows, groups, 2 * size) int32, as `add_products` takes them.
    """
    size = out.shape[2] // 2
    for row in range(rows):
        at = tile_row(first + row, k // STRIP, depth)
        for i in range(STRIP):
            word = words[tiles[at + 2 * i]]
            out[row, i // size, i % size] = word >> 16
            out[row, i // size, size + i % size] = np.int16(word) - _PRODUCT_BIAS


@compiled
def take_weight_values(tiles: U16, depth: int, k: int, columns: int, values: F32, out: F32) -> None:
    """Take 32 inputs of some strips of weights as fp32, out (4, 8 * LANES); else as `take_weights`."""
    for group in range(len(out)):
        for j in range(columns):
            strip = tiles[j // STRIP * depth * STRIP + k * STRIP :]
            for i in range(8):
                place = group * 8 + i
                out[group, i * LANES + j] = values[strip[place // 2 * 64 + j % STRIP * 2 + place % 2]]


@compiled
def take_row_values(tiles: U16, depth: int, first: int, rows: int, k: int, values: F32, out: F32) -> None:
    """Take 32 inputs of some rows of activations as fp32, out (rows, 4, 8); else as `take_rows`."""
    for row in range(rows):
        at = tile_row(first + row, k // STRIP, depth)
        for i in range(STRIP):
            out[row, i // 8, i % 8] = values[tiles[at + 2 * i]]


@compiled
def tile_row(row: int, column_tile: int, columns: int) -> int:
    """Halfword of element (row, 32 * column_tile) of a tiled matrix of so many columns; the next one is two on."""
    return (row // STRIP * (columns // STRIP) + column_tile) * TILE + row % STRIP // 2 * 64 + row % 2


@compiled
def store(significand: Integer, exponent: Integer, largest: int) -> Integer:
    """The code nearest to the accumulator's value; every zero is +0."""
    magnitude = -significand if significand < 0 else significand
    code = half_code(int(significand < 0), magnitude, exponent - _FRACTION_BITS, largest)
    return code if code & 0x7FFF else 0


@compiled
def store_accumulators(
    accumulators: I32, first: int, rows: int, strip: int, columns: int, out_columns: int, largest: int, out: U16
) -> None:
    """Store (rows, 2 * LANES) accumulators to rows `first`... and strips `strip`... of tiles of `out_columns`."""
    for row in range(rows):
        for j in range(columns):
            at = tile_row(first + row, strip + j // STRIP, out_columns) + j % STRIP * 2
            out[at] = store(np.int64(accumulators[row, j]), np.int64(accumulators[row, LANES + j]), largest)


@compiled
def store_totals(
    bits: U32, first: int, rows: int, strip: int, columns: int, out_columns: int, largest: int, out: U16
) -> None:
    """Store (rows, LANES) bits of fp32 sums, else as `store_accumulators`."""
    for row in range(rows):
        for j in range(columns):
            code = half_of_single(np.int64(bits[row, j]), largest)
            at = tile_row(first + row, strip + j // STRIP, out_columns) + j % STRIP * 2
            out[at] = code if code & 0x7FFF else 0
