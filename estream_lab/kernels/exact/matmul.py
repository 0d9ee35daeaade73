"""The matrix unit: products of fp16 tiles, accumulated as a numerics profile says (docs/numerics.md).

Operands are taken apart once, into signed significands and exponents. Then each row of activations meets each strip of
32 weight columns: the accumulators of a strip lie side by side, so that the compiler can work on them as vectors.
"""

from __future__ import annotations

import numpy as np

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.accumulate import add_products
from estream_lab.kernels.exact.arrays import F32, I16, I32, U16, U32, Integer
from estream_lab.kernels.exact.half import half_code, half_of_single, operands, value
from estream_lab.kernels.exact.profiles import Profile, profile
from estream_lab.kernels.layout import STRIP, TILE_BYTES, pack_tiles, pack_weight_tiles, unpack_tiles

_TILE = TILE_BYTES // 2  # halfwords
_FRACTION_BITS = 22


class Operands:
    """Room for operands taken apart, and accumulators, for one thread.

    Args:
        depth: the largest K.
    """

    def __init__(self, depth: int) -> None:
        self.weight_m, self.weight_e = np.empty((2, depth, STRIP), np.int16)  # (K, 32) each; 16 m
        self.used = np.empty((depth // 4, STRIP), np.int32)  # (K / group, 32)
        self.weight_value = np.empty((depth, STRIP), np.float32)  # (K, 32)
        self.row_m, self.row_e = np.empty((2, depth), np.int16)  # (K,) each
        self.row_value = np.empty(depth, np.float32)  # (K,)
        self.lanes = np.empty((4, STRIP), np.int32)  # accumulators, and what `add_products` needs
        self.sum = np.empty(STRIP, np.float32)  # (32,)

    @staticmethod
    def bytes_for(depth: int) -> int:
        """`nbytes` for this K."""
        return STRIP * depth * (2 + 2 + 1 + 4) + 8 * depth + 4 * 5 * STRIP

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return sum(array.nbytes for array in vars(self).values())


_SIGNIFICAND, _EXPONENT = operands()  # (65536,) int16 each
_VALUE = value(np.arange(1 << 16, dtype=np.uint16))  # (65536,) float32
for _table in (_SIGNIFICAND, _EXPONENT, _VALUE):
    _table.flags.writeable = False


def matmul(a: U16, b: U16, profile_name: str) -> U16:
    """``a @ b.T`` of fp16 codes on the matrix unit.

    Args:
        a: (M, K) uint16, activations; any M >= 1.
        b: (N, K) uint16, weights of N outputs. N and K are multiples of 32.
        profile_name: a numerics profile.

    Returns:
        (M, N) uint16.

    Raises:
        EStreamError: no such profile.
        ValueError: sizes that don't fit.
    """
    chosen = profile(profile_name)
    (rows, depth), (columns, other) = a.shape, b.shape
    if depth != other:
        raise ValueError(f"activations of {depth} inputs don't fit weights of {other}")
    padded = np.zeros((-(-rows // STRIP) * STRIP, depth), np.uint16)
    padded[:rows] = a
    out = np.zeros((len(padded), columns), np.uint16)
    tiles = pack_tiles(out).view(np.uint16)
    activations, weights = pack_tiles(padded).view(np.uint16), pack_weight_tiles(b).view(np.uint16)
    room = Operands(depth)
    for strip in range(columns // STRIP):
        multiply_strip(activations, weights, tiles, rows, depth, strip, strip, columns, chosen, room)
    return unpack_tiles(tiles.view(np.uint8), len(padded), columns)[:rows]


def multiply_strip(
    activations: U16,
    weights: U16,
    out: U16,
    rows: int,
    depth: int,
    weight_strip: int,
    out_strip: int,
    out_columns: int,
    chosen: Profile,
    room: Operands,
) -> None:
    """One strip of 32 output columns for all rows.

    Args:
        activations: halfwords of activation tiles (rows x depth), row tile by row tile.
        weights: halfwords of weight tiles, strip by strip.
        out: halfwords of output tiles (rows x out_columns), row tile by row tile.
        rows: of the product; rows of the last row tile beyond it are left alone.
        depth: K.
        weight_strip, out_strip: which strip of the weights goes to which of the output.
        out_columns: of a row of output tiles.
        chosen: the numerics profile.
        room: scratch of this thread.
    """
    first = weight_strip * depth * STRIP
    strip = weights[first : first + depth * STRIP]
    if chosen.block_floating:
        take_strip(strip, depth, chosen.group, _SIGNIFICAND, _EXPONENT, room.weight_m, room.weight_e, room.used)
        _multiply_groups(
            activations, out, rows, depth, out_strip, out_columns, chosen.group, chosen.least_exponent, chosen.largest,
            _SIGNIFICAND, _EXPONENT, room.weight_m, room.weight_e, room.used, room.row_m, room.row_e, room.lanes,
        )  # fmt: skip
    else:
        take_values(strip, depth, _VALUE, room.weight_value)
        _multiply_fp32(
            activations, out, rows, depth, out_strip, out_columns, chosen.largest, _VALUE, room.weight_value,
            room.row_value, room.sum, room.sum.view(np.uint32),
        )  # fmt: skip


@compiled
def _tile_row(row: int, column_tile: int, columns: int) -> int:
    """Halfword of element (row, 32 * column_tile) of a tiled matrix of so many columns; the next one is two on."""
    return (row // STRIP * (columns // STRIP) + column_tile) * _TILE + row % STRIP // 2 * 64 + row % 2


@compiled
def take_strip(tiles: U16, depth: int, size: int, m: I16, e: I16, out_m: I16, out_e: I16, used: I32) -> None:
    """Take a strip of weight tiles apart: (depth, 32) 16 m and e, and which groups of `size` aren't all zero."""
    for k in range(depth):
        at = _tile_row(k, 0, STRIP)
        for j in range(STRIP):
            code = tiles[at + 2 * j]
            out_m[k, j], out_e[k, j] = 16 * m[code], e[code]
            used[k // size, j] = out_m[k, j] if k % size == 0 else used[k // size, j] | out_m[k, j]


@compiled
def take_values(tiles: U16, depth: int, values: F32, out: F32) -> None:
    """Take a strip of weight tiles as (depth, 32) float32."""
    for k in range(depth):
        at = _tile_row(k, 0, STRIP)
        for j in range(STRIP):
            out[k, j] = values[tiles[at + 2 * j]]


@compiled
def _take_row(tiles: U16, row: int, depth: int, m: I16, e: I16, out_m: I16, out_e: I16) -> None:
    """Take a row of activation tiles apart: (depth,) significands and exponents."""
    for k in range(depth):
        code = tiles[_tile_row(row, k // STRIP, depth) + 2 * (k % STRIP)]
        out_m[k], out_e[k] = m[code], e[code]


@compiled
def _take_row_values(tiles: U16, row: int, depth: int, values: F32, out: F32) -> None:
    """Take a row of activation tiles as (depth,) float32."""
    for k in range(depth):
        out[k] = values[tiles[_tile_row(row, k // STRIP, depth) + 2 * (k % STRIP)]]


@compiled
def store(significand: Integer, exponent: Integer, largest: int) -> Integer:
    """The code nearest to the accumulator's value; every zero is +0."""
    magnitude = -significand if significand < 0 else significand
    code = half_code(int(significand < 0), magnitude, exponent - _FRACTION_BITS, largest)
    return code if code & 0x7FFF else 0


@compiled
def _multiply_groups(
    activations: U16, out: U16, rows: int, depth: int, strip: int, columns: int, size: int, least: int, largest: int,
    m: I16, e: I16, weight_m: I16, weight_e: I16, used: I32, row_m: I16, row_e: I16, lanes: I32,
) -> None:  # fmt: skip
    """The strip's columns for all rows, products in groups of `size`."""
    significand, exponent = lanes[0], lanes[1]
    for row in range(rows):
        _take_row(activations, row, depth, m, e, row_m, row_e)
        for j in range(STRIP):
            significand[j], exponent[j] = 0, least
        for k in range(0, depth, size):
            any_row = 0
            for i in range(k, k + size):
                any_row |= row_m[i]
            if any_row:  # else the group is passed over
                add_products(
                    row_m, row_e, weight_m, weight_e, used[k // size], k, size, np.int32(least), significand, exponent,
                    lanes[2], lanes[3],
                )  # fmt: skip
        at = _tile_row(row, strip, columns)
        for j in range(STRIP):
            out[at + 2 * j] = store(significand[j], exponent[j], largest)


@compiled
def _multiply_fp32(
    activations: U16, out: U16, rows: int, depth: int, strip: int, columns: int, largest: int, values: F32,
    weight: F32, row_value: F32, total: F32, total_bits: U32,
) -> None:  # fmt: skip
    """The strip's columns for all rows, each sum in fp32 over ascending K; the products are exact."""
    for row in range(rows):
        _take_row_values(activations, row, depth, values, row_value)
        for j in range(STRIP):
            total[j] = np.float32(0)
        for k in range(0, depth, 8):  # eight at a time: a loop over columns that the compiler makes vectors of
            for j in range(STRIP):
                partial = total[j]
                for i in range(k, k + 8):
                    partial += row_value[i] * weight[i, j]
                total[j] = partial
        at = _tile_row(row, strip, columns)
        for j in range(STRIP):
            code = half_of_single(np.int64(total_bits[j]), largest)
            out[at + 2 * j] = code if code & 0x7FFF else 0
