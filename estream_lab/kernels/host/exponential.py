"""exp in fp32 from correctly rounded operations only.

A library exp may differ in the last bit between a loop's vector body and its scalar remainder, hence between ways of
cutting rows. This one is the same additions and fused multiply-adds either way.
"""

from __future__ import annotations

import numpy as np

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.vector_ir import float_of_bits, fma

LOWEST, HIGHEST = np.float32(-87.0), np.float32(88.0)
"""Arguments are clamped to this range, so that results are normal numbers."""

LOG2_E = np.float32(1.4426950408889634)
LN2_HIGH = np.float32(0.693145751953125)  # 11 bits short: n * LN2_HIGH is exact
LN2_LOW = np.float32(1.428606765330187e-06)
ROUND = np.float32(1.5 * 2**23)  # adding and subtracting it rounds to the nearest integer

# 1/n! for n = 7..2: on |r| <= ln(2)/2 the series ends 5e-9 short, a twentieth of an fp32 ulp.
C7, C6, C5, C4, C3, C2 = (np.float32(1 / n) for n in (5040, 720, 120, 24, 6, 2))


@compiled
def exp32(x: np.float32) -> np.float32:
    """exp(x) for float32 x clamped to -87..88, within 1 ulp; exp32(0) is exactly 1."""
    x = min(max(x, LOWEST), HIGHEST)
    n = (x * LOG2_E + ROUND) - ROUND
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    p = fma(C7, r, C6)
    p = fma(p, r, C5)
    p = fma(p, r, C4)
    p = fma(p, r, C3)
    p = fma(p, r, C2)
    p = fma(p, r, np.float32(1))
    p = fma(p, r, np.float32(1))
    return p * float_of_bits(np.uint32((np.int32(n) + np.int32(127)) << np.int32(23)))


@compiled
def silu(x: np.float32) -> np.float32:
    """x / (1 + exp(-x)) for float32 x, within 3 ulp for x > -87 and 2^-115 of the truth below."""
    return x / (np.float32(1) + exp32(-x))
