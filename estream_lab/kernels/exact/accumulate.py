"""The block floating point accumulator (docs/numerics.md, "Block floating point").

Written for one column, and for those of some strips side by side: every step is a loop over columns without branches,
on 32-bit integers, which the compiler turns into vector code.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.arrays import I16, I32
from estream_lab.kernels.exact.integer import align, shift_left

I = np.int32
"""numba widens every sum to 64 bits: this brings it back."""

AddProducts = Callable[..., None]

_PRODUCT_BIAS = I(32)
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


def group_adder(size: int) -> AddProducts:
    """`add_products` for groups of `size`: a number that the compiler knows lets it keep sums in registers."""

    @compiled
    def add_products(
        row_m: I16, row_e: I16, weight_m: I16, weight_e: I16, used: I32, k: int, least: np.int32,
        significand: I32, exponent: I32, top: I32, total: I32,
    ) -> None:  # fmt: skip
        """Add the group of `size` products from `k` on to accumulators side by side, two products at a time.

        `row_m`, `row_e` are (K,), `weight_m`, `weight_e` (K, columns), others (columns,). `weight_m` holds 16 m,
        because products have 18 bits of fraction and accumulators 22. `used` is -1 where a column's weights in the
        group aren't all zero, else 0; `top` and `total` are room.
        """
        for j in range(len(top)):
            top[j], total[j] = least, I(0)
        for i in range(k, k + size, 2):
            e0, e1 = I(row_e[i] - _PRODUCT_BIAS), I(row_e[i + 1] - _PRODUCT_BIAS)
            for j in range(len(top)):
                top[j] = max(top[j], max(I(e0 + weight_e[i, j]), I(e1 + weight_e[i + 1, j])))
        for i in range(k, k + size, 2):
            m0, m1 = row_m[i], row_m[i + 1]
            e0, e1 = I(row_e[i] - _PRODUCT_BIAS), I(row_e[i + 1] - _PRODUCT_BIAS)
            for j in range(len(top)):
                first = align(I(m0 * weight_m[i, j]), I(top[j] - I(e0 + weight_e[i, j])))
                second = align(I(m1 * weight_m[i + 1, j]), I(top[j] - I(e1 + weight_e[i + 1, j])))
                total[j] = I(total[j] + I(first + second))
        for j in range(len(top)):
            s, x = add_group(significand[j], exponent[j], total[j], top[j], least)
            # A group whose weights are all zero is passed over. By masks: some CPUs store conditionally very slowly.
            significand[j] = I(s & used[j]) | I(significand[j] & I(~used[j]))
            exponent[j] = I(x & used[j]) | I(exponent[j] & I(~used[j]))

    return add_products


add_4_products, add_8_products = group_adder(4), group_adder(8)
