"""The block floating point accumulator (docs/numerics.md, "Block floating point").

Written for one column, and for `LANES` columns side by side: a loop over columns without branches, on 32-bit integers,
which the compiler turns into vector code. It does so because lanes lie a fixed distance apart: else it would have to
ask at run time whether any two of them overlap.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.arrays import F32, I32
from estream_lab.kernels.exact.half import I
from estream_lab.kernels.exact.integer import align, shift_left

LANES = 128
"""Columns side by side: the more there are, the less a loop's beginning counts."""

_BELOW_THE_TOP, _BIT_29, _BIT_28, _BIT_27 = I((1 << 30) - 1), I(1 << 29), I(1 << 28), I(1 << 27)


@compiled
def places_to_normalise(a: np.int32, b: np.int32) -> np.int32:
    """min(3, anticipated(a, b)): how far the leading bit of a + b lies below the top, told from a and b alone.

    The first bits of a sum follow from patterns that need no carry: a bit of `zeros` is set where a run of leading
    zeros of the sum may end, one of `ones` where a run of leading ones may. A run that the signs rule out ends at once:
    `both` or `none` has its sign bit set then, and shifted down that is a word of ones. The smaller pattern has the
    longer run.
    """
    one, both, none = I(a ^ b), I(a & b), I(~I(a | b))
    zeros = I(one ^ I(~shift_left(none, I(1)))) | I(both >> I(31))
    ones = I(one ^ I(~shift_left(both, I(1)))) | I(none >> I(31))
    pattern = min(I(zeros & _BELOW_THE_TOP), I(ones & _BELOW_THE_TOP))
    return I(I(pattern < _BIT_29) + I(pattern < _BIT_28) + I(pattern < _BIT_27))


@compiled
def add_group(
    significand: np.int32, exponent: np.int32, group: np.int32, group_exponent: np.int32, least: np.int32
) -> tuple[np.int32, np.int32]:
    """The accumulator (S, X) after the sum of a group, (S_g, X_g), was added."""
    top = max(exponent, group_exponent)
    a, b = align(significand, I(top - exponent)), align(group, I(top - group_exponent))
    places = min(places_to_normalise(a, b), I(I(top + I(1)) - least))
    return shift_left(align(I(a + b), I(1)), places), I(I(top + I(1)) - places)


def group_adder(size: int) -> Callable[[I32, I32, I32, int, np.int32, I32, I32], None]:
    """`add_products` for groups of `size`: a number that the compiler knows lets it keep the sums in registers."""

    @compiled
    def add_products(
        row: I32, weights: I32, used: I32, columns: int, least: np.int32, sums: I32, accumulators: I32
    ) -> None:
        """Add a group of `size` products to accumulators side by side.

        Args:
            row: (2 * size,) int32, m of the row's operands, then e - 32.
            weights: (2 * size * LANES,) int32, 16 m of weight i and column j at ``i * LANES + j``, then e. (16, because
                products have 18 bits of fraction and accumulators 22.)
            used: (LANES,) int32, -1 where a column's weights aren't all zero, else 0.
            columns: how many of the lanes.
            least: X_min.
            sums: (2 * LANES,) int32, room for the group's.
            accumulators: (2 * LANES,) int32, S of each column, then X.
        """
        for j in range(columns):
            top = least
            for i in range(size):
                top = max(top, I(row[size + i] + weights[(size + i) * LANES + j]))
            total = I(0)
            for i in range(size):
                product = I(row[i] * weights[i * LANES + j])
                total = I(total + align(product, I(top - I(row[size + i] + weights[(size + i) * LANES + j]))))
            sums[j], sums[LANES + j] = total, top
        # A loop of its own: one column's steps wait for each other, and the processor looks only so far ahead.
        for j in range(columns):
            old_s, old_x = accumulators[j], accumulators[LANES + j]
            s, x = add_group(old_s, old_x, sums[j], sums[LANES + j], least)
            # A group whose weights are all zero is passed over. By masks: some CPUs store conditionally very slowly.
            accumulators[j] = I(s & used[j]) | I(old_s & I(~used[j]))
            accumulators[LANES + j] = I(x & used[j]) | I(old_x & I(~used[j]))

    return add_products


add_4_products, add_8_products = group_adder(4), group_adder(8)


ROWS_AT_ONCE, ROW_STEP = 4, 32


@compiled
def add_8_values(rows: F32, weights: F32, columns: int, totals: F32) -> None:
    """Add eight products, in order, to the fp32 sums of four rows and of columns side by side.

    Args:
        rows: float32, value i of row r at ``r * ROW_STEP + i``.
        weights: (8 * LANES,) float32. columns: how many of the lanes.
        totals: (4 * LANES,) float32.
    """
    for j in range(columns):
        first, second, third, fourth = totals[j], totals[LANES + j], totals[2 * LANES + j], totals[3 * LANES + j]
        for i in range(8):
            weight = weights[i * LANES + j]
            first += rows[i] * weight
            second += rows[ROW_STEP + i] * weight
            third += rows[2 * ROW_STEP + i] * weight
            fourth += rows[3 * ROW_STEP + i] * weight
        totals[j], totals[LANES + j], totals[2 * LANES + j], totals[3 * LANES + j] = first, second, third, fourth
