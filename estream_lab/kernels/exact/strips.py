"""Tiles taken apart for the accumulators, a column of tiles at a time, and results put back into tiles."""

from __future__ import annotations

import numpy as np

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.accumulate import LANES
from estream_lab.kernels.exact.arrays import F32, I32, U16, U32, Integer
from estream_lab.kernels.exact.half import NO_EXPONENT, I, exponent_of, half_code, half_of_single, significand_of
from estream_lab.kernels.exact.integer import bit_length, power_of_two, shift_left, shift_right
from estream_lab.kernels.exact.tiles import tile_row
from estream_lab.kernels.layout import STRIP

_FRACTION_BITS = 22
_PRODUCT_BIAS = 32


@compiled
def operand(code: np.int32) -> tuple[np.int32, np.int32]:
    """What the matrix unit takes a code for, as `half.operands` has it for all of them; higher bits don't matter."""
    exponent = I(shift_right(code, I(10)) & I(31))
    n = I(I(code & I(0x3FF)) | (I(0x400) if exponent != I(0) else I(0)))
    places = I(I(11) - bit_length(n))  # to normalise it
    m = shift_left(n, places)
    negative = shift_right(shift_left(code, I(16)), I(31))  # -1 or 0
    e = I(max(I(1), exponent) - places) if n != I(0) else I(NO_EXPONENT)
    return I(I(m ^ negative) - negative), e


@compiled
def take_weights(pairs: I32, depth: int, k: int, columns: int, out: I32, used: I32) -> None:
    """Take 32 inputs of some strips of weights apart.

    Args:
        pairs: tiles of weights, strip by strip; a word has a column's codes of two inputs, the first one lower.
        depth: K of a strip.
        k: the first input.
        columns: of all the strips.
        out: (groups, 2 * size * LANES) int32, as `add_products` takes them.
        used: (groups, LANES) int32, -1 where a column's weights aren't all zero, else 0.
    """
    size = out.shape[1] // (2 * LANES)
    for group in range(len(out)):
        used[group] = 0
        for i in range(0, size, 2):
            for first in range(0, columns, STRIP):
                source = pairs[first * depth // 2 + (k + group * size + i) // 2 * STRIP :]
                m, e = out[group, i * LANES + first :], out[group, (size + i) * LANES + first :]
                any_used = used[group, first:]
                for j in range(STRIP):
                    m0, e0 = operand(source[j])
                    m1, e1 = operand(shift_right(source[j], I(16)))
                    m[j], e[j] = shift_left(m0, I(4)), e0
                    m[LANES + j], e[LANES + j] = shift_left(m1, I(4)), e1
                    any_used[j] = I(any_used[j] | -I(I(m0 | m1) != I(0)))


@compiled
def take_rows(tiles: U16, depth: int, first: int, rows: int, k: int, out: I32) -> None:
    """Take 32 inputs of some rows of activations apart.

    Args:
        tiles: halfwords of activation tiles, row tile by row tile.
        depth: K.
        first: the first row, of a row tile. rows: how many.
        k: the first input.
        out: (rows, groups, 2 * size) int32, as `add_products` takes them.
    """
    size = out.shape[2] // 2
    for row in range(rows):
        at = tile_row(first + row, k // STRIP, depth)
        for i in range(STRIP):
            m, e = operand(I(tiles[at + 2 * i]))
            out[row, i // size, i % size] = m
            out[row, i // size, size + i % size] = I(e - I(_PRODUCT_BIAS))


@compiled
def number(code: np.int32) -> np.float32:
    """What a code stands for, as `half.value` has it for all of them; higher bits don't matter."""
    magnitude = np.float32(np.float32(significand_of(code)) * power_of_two(I(exponent_of(code) - I(25))))
    return np.float32(-magnitude) if I(code & I(0x8000)) != I(0) else magnitude


@compiled
def take_weight_values(pairs: I32, depth: int, k: int, columns: int, out: F32) -> None:
    """Take 32 inputs of some strips of weights as fp32, out (4, 8 * LANES); else as `take_weights`."""
    for group in range(len(out)):
        for i in range(0, 8, 2):
            for first in range(0, columns, STRIP):
                source = pairs[first * depth // 2 + (k + group * 8 + i) // 2 * STRIP :]
                lanes = out[group, i * LANES + first :]
                for j in range(STRIP):
                    lanes[j] = number(source[j])
                    lanes[LANES + j] = number(shift_right(source[j], I(16)))


@compiled
def take_row_values(tiles: U16, depth: int, first: int, rows: int, k: int, out: F32) -> None:
    """Take 32 inputs of some rows of activations as fp32, out (rows, 32); else as `take_rows`."""
    for row in range(rows):
        codes, values = tiles[tile_row(first + row, k // STRIP, depth) :], out[row]
        for i in range(STRIP):
            values[i] = number(I(codes[2 * i]))


@compiled
def store(significand: Integer, exponent: Integer, largest: int) -> np.int32:
    """The code nearest to the accumulator's value; every zero is +0."""
    negative = shift_right(I(significand), I(31))  # -1 or 0
    magnitude = I(I(significand ^ negative) - negative)
    return _without_sign_of_zero(half_code(-negative, magnitude, exponent - _FRACTION_BITS, largest))


@compiled
def _without_sign_of_zero(code: np.int32) -> np.int32:
    return code if I(code & I(0x7FFF)) != I(0) else I(0)


@compiled
def store_accumulators(
    accumulators: I32, first: int, rows: int, strip: int, columns: int, out_columns: int, largest: int, out: U16
) -> None:
    """Store (rows, 2 * LANES) accumulators to rows `first`... and strips `strip`... of tiles of `out_columns`."""
    codes = np.empty(LANES, np.uint16)
    for row in range(rows):
        accumulator = accumulators[row]
        for j in range(columns):
            codes[j] = store(accumulator[j], accumulator[LANES + j], largest)
        _place(codes, first + row, strip, columns, out_columns, out)


@compiled
def store_totals(
    bits: U32, first: int, rows: int, strip: int, columns: int, out_columns: int, largest: int, out: U16
) -> None:
    """Store (rows, LANES) bits of fp32 sums, else as `store_accumulators`."""
    codes = np.empty(LANES, np.uint16)
    for row in range(rows):
        total = bits[row]
        for j in range(columns):
            codes[j] = _without_sign_of_zero(half_of_single(total[j], largest))
        _place(codes, first + row, strip, columns, out_columns, out)


@compiled
def _place(codes: U16, row: int, strip: int, columns: int, out_columns: int, out: U16) -> None:
    """A row's codes to their places in tiles."""
    for j in range(columns):
        out[tile_row(row, strip + j // STRIP, out_columns) + j % STRIP * 2] = codes[j]
