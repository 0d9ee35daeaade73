"""The matrix unit: products of fp16 tiles, accumulated as a numerics profile says (docs/numerics.md).

A block of rows meets some strips of weight columns, 32 inputs after the other. What is taken apart for them, and
their accumulators, stay in the cache next to the core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.accumulate import (
    LANES,
    ROW_STEP,
    ROWS_AT_ONCE,
    add_4_products,
    add_8_products,
    add_8_values,
)
from estream_lab.kernels.exact.arrays import F32, I32, U16, U32
from estream_lab.kernels.exact.strips import (
    store_accumulators,
    store_totals,
    take_row_values,
    take_rows,
    take_weight_values,
    take_weights,
)
from estream_lab.kernels.layout import STRIP, pack_tiles, pack_weight_tiles, unpack_tiles
from estream_lab.kernels.profiles import Profile, profile

MOST_STRIPS = LANES // STRIP
"""Strips whose accumulators lie side by side."""

_ROWS = 128  # of a block: the more, the less often weights are taken apart


class Operands:
    """Room for operands taken apart, and for accumulators, of one thread.

    Args:
        chosen: the numerics profile.
    """

    def __init__(self, chosen: Profile) -> None:
        parts, size, kind = self._parts(chosen)
        groups = STRIP // size
        self.weights = np.zeros((groups, parts * size * LANES), kind)
        self.rows = np.zeros((_ROWS, groups, parts * size), kind)
        self.accumulators = np.zeros((_ROWS, parts * LANES), kind)
        exponents = parts - 1  # whether there are any
        self.used = np.zeros((exponents * groups, LANES), np.int32)  # which columns of a group aren't all zero
        self.sums = np.zeros(exponents * parts * LANES, np.int32)  # of a group

    @staticmethod
    def bytes_for(chosen: Profile) -> int:
        """`nbytes` for this profile."""
        parts, size, _ = Operands._parts(chosen)
        group = (parts - 1) * (parts + STRIP // size) * LANES
        return 4 * (parts * (STRIP * LANES + _ROWS * STRIP + _ROWS * LANES) + group)

    @staticmethod
    def _parts(chosen: Profile) -> tuple[int, int, type[Any]]:
        """An operand is a significand and an exponent, or one fp32; products in a group; kind of number."""
        return (2, chosen.group, np.int32) if chosen.block_floating else (1, 8, np.float32)

    @property
    def nbytes(self) -> int:
        """Bytes of all of it."""
        return sum(array.nbytes for array in vars(self).values())


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
    room = Operands(chosen)
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

    Raises:
        ValueError: more strips than that.
    """
    if len(strips) > MOST_STRIPS:
        raise ValueError(f"{len(strips)} strips are more than the {MOST_STRIPS} that fit side by side")
    columns, first = len(strips) * STRIP, strips.start
    pairs = weights[first * depth * STRIP : strips.stop * depth * STRIP].view(np.int32)
    if chosen.block_floating:
        _MULTIPLY[chosen.group](
            activations, pairs, out, rows, depth, first, columns, out_columns, chosen.least_exponent, chosen.largest,
            room.weights, room.used, room.rows, room.sums, room.accumulators,
        )  # fmt: skip
    else:
        _multiply_fp32(
            activations, pairs, out, rows, depth, first, columns, out_columns, chosen.largest, room.weights,
            room.rows.reshape(-1), room.accumulators.reshape(-1), room.accumulators.view(np.uint32),
        )  # fmt: skip


def _multiplier(size: int) -> Callable[..., None]:
    """The product for groups of `size`; only a number is closed over, else no process would find it in the cache."""

    @compiled
    def multiply_groups(
        activations: U16, pairs: I32, out: U16, rows: int, depth: int, strip: int, columns: int, out_columns: int,
        least: int, largest: int, weights: I32, used: I32, row_operands: I32, sums: I32,
        accumulators: I32,
    ) -> None:  # fmt: skip
        for first in range(0, rows, _ROWS):
            some = min(_ROWS, rows - first)
            accumulators[:, :LANES], accumulators[:, LANES:] = 0, least
            for k in range(0, depth, STRIP):
                take_weights(pairs, depth, k, columns, weights, used)
                take_rows(activations, depth, first, some, k, row_operands)
                for group in range(len(weights)):
                    for row in range(some):
                        operands = row_operands[row, group]
                        any_row = 0
                        for i in range(size):
                            any_row |= operands[i]
                        if any_row == 0:
                            continue  # the group is passed over
                        if size == 4:
                            add_4_products(
                                operands, weights[group], used[group], columns, np.int32(least), sums, accumulators[row]
                            )
                        else:
                            add_8_products(
                                operands, weights[group], used[group], columns, np.int32(least), sums, accumulators[row]
                            )
            store_accumulators(accumulators, first, some, strip, columns, out_columns, largest, out)

    return multiply_groups


@compiled
def _multiply_fp32(
    activations: U16, pairs: I32, out: U16, rows: int, depth: int, strip: int, columns: int, out_columns: int,
    largest: int, weights: F32, row_values: F32, totals: F32, total_bits: U32,
) -> None:  # fmt: skip
    """Each sum in fp32 over ascending K; the products are exact. Rows go four by four, the last ones with others."""
    for first in range(0, rows, _ROWS):
        some = min(_ROWS, rows - first)
        totals[:] = 0
        for k in range(0, depth, STRIP):
            take_weight_values(pairs, depth, k, columns, weights)
            take_row_values(activations, depth, first, some, k, row_values.reshape(_ROWS, STRIP))
            for group in range(len(weights)):
                for row in range(0, some, ROWS_AT_ONCE):
                    values = row_values[row * ROW_STEP + 8 * group :]
                    add_8_values(values, weights[group], columns, totals[row * LANES :])
        store_totals(total_bits, first, some, strip, columns, out_columns, largest, out)


_MULTIPLY = {size: _multiplier(size) for size in (4, 8)}
