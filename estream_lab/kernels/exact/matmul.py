"""The matrix unit: products of fp16 tiles, accumulated as a numerics profile says (docs/numerics.md).

Operands are taken apart once, into signed significands and exponents. Then each row of activations meets some strips of
weight columns: their accumulators lie side by side, so that the compiler can work on them as vectors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.accumulate import add_4_products, add_8_products
from estream_lab.kernels.exact.arrays import F32, I16, I32, U16, U32, Integer
from estream_lab.kernels.exact.half import half_code, half_of_single, operands, value
from estream_lab.kernels.layout import STRIP, TILE_BYTES, pack_tiles, pack_weight_tiles, unpack_tiles
from estream_lab.kernels.profiles import Profile, profile

MOST_STRIPS = 4
"""Strips whose accumulators lie side by side: the longer the rows, the less a loop's beginning counts."""

MOST_COLUMNS = MOST_STRIPS * STRIP

_TILE = TILE_BYTES // 2  # halfwords
_FRACTION_BITS = 22


class Operands:
    """Room for operands taken apart, and accumulators, for one thread.

    Args:
        depth: the largest K.
        chosen: the numerics profile.
    """

    def __init__(self, depth: int, chosen: Profile) -> None:
        # an int16 significand and exponent, or one float32: four bytes each
        self.weights = np.empty(depth * MOST_COLUMNS, np.float32)
        self.rows = np.empty(depth, np.float32)
        self.used = np.empty(depth // chosen.group * MOST_COLUMNS if chosen.block_floating else 0, np.int32)
        self.lanes = np.empty(4 * MOST_COLUMNS, np.int32)

    @staticmethod
    def bytes_for(depth: int, chosen: Profile) -> int:
        """`nbytes` for this K and profile."""
        used = depth // chosen.group * MOST_COLUMNS if chosen.block_floating else 0
        return 4 * (depth * (MOST_COLUMNS + 1) + used + 4 * MOST_COLUMNS)

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return sum(array.nbytes for array in vars(self).values())

    def block_floating(self, depth: int, columns: int, group: int) -> tuple[I16, I16, I32, I16, I16, I32]:
        """Views for a product: weights (K, columns) 16 m and e, used (K / group, columns), a row (K,) m and e, lanes.

        Lanes are (4, columns): accumulators' S and X, and two that `add_products` needs.
        """
        m, e = self.weights.view(np.int16)[: 2 * depth * columns].reshape(2, depth, columns)
        row_m, row_e = self.rows.view(np.int16)[: 2 * depth].reshape(2, depth)
        return m, e, self.used[: depth // group * columns].reshape(-1, columns), row_m, row_e, self._lanes(columns)

    def single(self, depth: int, columns: int) -> tuple[F32, F32, F32]:
        """Views for a product: weights (K, columns), a row (K,), sums (columns,)."""
        weights = self.weights[: depth * columns].reshape(depth, columns)
        return weights, self.rows[:depth], self._lanes(columns)[0].view(np.float32)

    def _lanes(self, columns: int) -> I32:
        return self.lanes[: 4 * columns].reshape(4, columns)


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
    room = Operands(depth, chosen)
    for strip in range(0, columns // STRIP, MOST_STRIPS):
        strips = range(strip, min(strip + MOST_STRIPS, columns // STRIP))
        multiply_strips(activations, weights, tiles, rows, depth, strips, columns, chosen, room)
    return unpack_tiles(tiles.view(np.uint8), len(padded), columns)[:rows]


def multiply_strips(
    activations: U16,
    weights: U16,
    out: U16,
    rows: int,
    depth: int,
    strips: range,
    out_columns: int,
    chosen: Profile,
    room: Operands,
) -> None:
    """Some strips of 32 output columns for all rows.

    Args:
        activations: halfwords of activation tiles (rows x depth), row tile by row tile.
        weights: halfwords of weight tiles, strip by strip.
        out: halfwords of output tiles (rows x out_columns), row tile by row tile.
        rows: of the product; rows of the last row tile beyond it are left alone.
        depth: K.
        strips: which, in weights and output: neighbours, at most `MOST_STRIPS`.
        out_columns: of a row of output tiles.
        chosen: the numerics profile. room: scratch of this thread, made for it.
    """
    columns, first = len(strips) * STRIP, strips.start
    tiles = weights[first * depth * STRIP : strips.stop * depth * STRIP]
    if chosen.block_floating:
        m, e, used, row_m, row_e, lanes = room.block_floating(depth, columns, chosen.group)
        take_strips(tiles, chosen.group, _SIGNIFICAND, _EXPONENT, m, e, used)
        _MULTIPLY[chosen.group](
            activations, out, rows, first, out_columns, chosen.least_exponent, chosen.largest, _SIGNIFICAND, _EXPONENT,
            m, e, used, row_m, row_e, lanes,
        )  # fmt: skip
    else:
        values, row, total = room.single(depth, columns)
        take_values(tiles, _VALUE, values)
        bits = total.view(np.uint32)
        _multiply_fp32(activations, out, rows, first, out_columns, chosen.largest, _VALUE, values, row, total, bits)


@compiled
def _tile_row(row: int, column_tile: int, columns: int) -> int:
    """Halfword of element (row, 32 * column_tile) of a tiled matrix of so many columns; the next one is two on."""
    return (row // STRIP * (columns // STRIP) + column_tile) * _TILE + row % STRIP // 2 * 64 + row % 2


@compiled
def take_strips(tiles: U16, size: int, m: I16, e: I16, out_m: I16, out_e: I16, used: I32) -> None:
    """Take strips of weight tiles apart: (K, columns) 16 m and e; `used` is -1 where a group isn't all zero."""
    depth, columns = out_m.shape
    used[:] = 0
    for k in range(depth):
        for j in range(columns):
            code = tiles[_weight(k, j, depth)]
            out_m[k, j], out_e[k, j] = 16 * m[code], e[code]
            if m[code] != 0:
                used[k // size, j] = -1


@compiled
def take_values(tiles: U16, values: F32, out: F32) -> None:
    """Take strips of weight tiles as (K, columns) float32."""
    depth, columns = out.shape
    for k in range(depth):
        for j in range(columns):
            out[k, j] = values[tiles[_weight(k, j, depth)]]


@compiled
def _weight(k: int, j: int, depth: int) -> int:
    """Halfword of weight (k, column j) among strips of so many inputs."""
    return j // STRIP * depth * STRIP + _tile_row(k, 0, STRIP) + 2 * (j % STRIP)


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


def _multiplier(size: int) -> Callable[..., None]:
    """The product for groups of `size`; only a number is closed over, else no process would find it in the cache."""

    @compiled
    def multiply_groups(
        activations: U16, out: U16, rows: int, first_strip: int, out_columns: int, least: int, largest: int, m: I16,
        e: I16, weight_m: I16, weight_e: I16, used: I32, row_m: I16, row_e: I16, lanes: I32,
    ) -> None:  # fmt: skip
        significand, exponent, depth = lanes[0], lanes[1], len(row_m)
        for row in range(rows):
            _take_row(activations, row, depth, m, e, row_m, row_e)
            significand[:], exponent[:] = 0, least
            for k in range(0, depth, size):
                any_row = 0
                for i in range(k, k + size):
                    any_row |= row_m[i]
                if any_row == 0:
                    continue  # the group is passed over
                if size == 4:
                    add_4_products(
                        row_m, row_e, weight_m, weight_e, used[k // size], k, np.int32(least), significand, exponent,
                        lanes[2], lanes[3],
                    )  # fmt: skip
                else:
                    add_8_products(
                        row_m, row_e, weight_m, weight_e, used[k // size], k, np.int32(least), significand, exponent,
                        lanes[2], lanes[3],
                    )  # fmt: skip
            for j in range(len(significand)):
                at = _tile_row(row, first_strip + j // STRIP, out_columns) + 2 * (j % STRIP)
                out[at] = store(significand[j], exponent[j], largest)

    return multiply_groups


@compiled
def _multiply_fp32(
    activations: U16, out: U16, rows: int, first_strip: int, out_columns: int, largest: int, values: F32, weight: F32,
    row_value: F32, total: F32, total_bits: U32,
) -> None:  # fmt: skip
    """Each sum in fp32 over ascending K; the products are exact."""
    depth, columns = weight.shape
    for row in range(rows):
        _take_row_values(activations, row, depth, values, row_value)
        total[:] = 0
        for k in range(0, depth, 8):  # eight at a time: a loop over columns that the compiler makes vectors of
            for j in range(columns):
                partial = total[j]
                for i in range(k, k + 8):
                    partial += row_value[i] * weight[i, j]
                total[j] = partial
        for j in range(columns):
            code = half_of_single(np.int64(total_bits[j]), largest)
            at = _tile_row(row, first_strip + j // STRIP, out_columns) + 2 * (j % STRIP)
            out[at] = code if code & 0x7FFF else 0


_MULTIPLY = {size: _multiplier(size) for size in (4, 8)}
