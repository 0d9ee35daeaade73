"""The block floating point accumulator (docs/numerics.md, "Block floating point").

Written for one column, and for the 32 of a strip side by side: every step is a loop over columns without branches, on
32-bit integers, which the compiler turns into vector code.
"""

from __future__ import annotations

import numpy as np

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.arrays import I16, I32
from estream_lab.kernels.exact.integer import align, shift_left
from estream_lab.kernels.layout import STRIP

I = np.int32
"""numba widens every sum to 64 bits: this brings it back."""

_PRODUCT_BIAS = I(32)


@compiled
def leading_zeros(word: np.int32) -> np.int32:
    """Zeros from bit 29 downwards, three at most."""
    first = I(I(I(word >> I(29)) & I(1)) ^ I(1))
    second = I(I(I(word >> I(28)) & I(1)) ^ I(1))
    third = I(I(I(word >> I(27)) & I(1)) ^ I(1))
    return I(first + I(first & second) + I(first & second & third))


@compiled
def places_to_normalise(a: np.int32, b: np.int32) -> np.int32:
    """min(3, anticipated(a, b)): how far the leading bit of a + b lies below the top, told from a and b alone.

    The first bits of a sum follow from patterns that need no carry: a bit of `zeros` is set where a run of leading
    zeros of the sum may end, one of `ones` where a run of leading ones may. A run that the signs rule out counts 0:
    `both` or `none` has its sign bit set then, and shifted down that is a mask of ones.
    """
    one, both, none = I(a ^ b), I(a & b), I(~I(a | b))
    zeros = leading_zeros(I(one ^ I(~shift_left(none, I(1)))))
    ones = leading_zeros(I(one ^ I(~shift_left(both, I(1)))))
    return max(I(zeros & I(~I(both >> I(31)))), I(ones & I(~I(none >> I(31)))))


@compiled
def add_group(
    significand: np.int32, exponent: np.int32, group: np.int32, group_exponent: np.int32, least: np.int32
) -> tuple[np.int32, np.int32]:
    """The accumulator (S, X) after the sum of a group, (S_g, X_g), was added."""
    top = max(exponent, group_exponent)
    a, b = align(significand, I(top - exponent)), align(group, I(top - group_exponent))
    places = min(places_to_normalise(a, b), I(I(top + I(1)) - least))
    return shift_left(align(I(a + b), I(1)), places), I(I(top + I(1)) - places)


@compiled
def add_products(
    row_m: I16, row_e: I16, weight_m: I16, weight_e: I16, used: I32, k: int, size: int, least: np.int32,
    significand: I32, exponent: I32, top: I32, total: I32,
) -> None:  # fmt: skip
    """Add the group of `size` products from `k` on to the 32 accumulators of a strip, two products at a time.

    `row_m`, `row_e` are (K,), `weight_m`, `weight_e` (K, 32), others (32,). `weight_m` holds 16 m, because products
    have 18 bits of fraction and accumulators 22. `used` tells where a column's weights in the group aren't all zero;
    `top` and `total` are room.
    """
    for j in range(STRIP):
        top[j], total[j] = least, I(0)
    for i in range(k, k + size, 2):
        e0, e1 = I(row_e[i] - _PRODUCT_BIAS), I(row_e[i + 1] - _PRODUCT_BIAS)
        for j in range(STRIP):
            top[j] = max(top[j], max(I(e0 + weight_e[i, j]), I(e1 + weight_e[i + 1, j])))
    for i in range(k, k + size, 2):
        m0, m1 = row_m[i], row_m[i + 1]
        e0, e1 = I(row_e[i] - _PRODUCT_BIAS), I(row_e[i + 1] - _PRODUCT_BIAS)
        for j in range(STRIP):
            first = align(I(m0 * weight_m[i, j]), I(top[j] - I(e0 + weight_e[i, j])))
            second = align(I(m1 * weight_m[i + 1, j]), I(top[j] - I(e1 + weight_e[i + 1, j])))
            total[j] = I(total[j] + I(first + second))
    for j in range(STRIP):
        s, x = add_group(significand[j], exponent[j], total[j], top[j], least)
        significand[j] = s if used[j] else significand[j]  # a group whose weights are all zero is passed over
        exponent[j] = x if used[j] else exponent[j]
