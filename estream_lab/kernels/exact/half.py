"""fp16 by integers: codes to significands and exponents, and back by one rounding (docs/numerics.md, "Numbers")."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.arrays import I16, Integer
from estream_lab.kernels.exact.integer import bit_length, shift_left, shift_right

I = np.int32
"""numba widens every sum to 64 bits: this brings it back."""

IEEE_LARGEST = 0x7BFF  # 65504, in the stages that know no exponent code 31
NO_EXPONENT = -10_000  # of a zero: it never decides which exponent of several is the largest


@compiled
def half_code(negative: Integer, magnitude: Integer, exponent: Integer, largest: Integer) -> np.int32:
    """The code nearest to ``magnitude * 2 ** exponent``, ties to even, subnormals included, at most ``largest``.

    `magnitude` is below 2^30; `negative` is 0 or 1, and is kept for zeros. Without branches, on 32-bit integers: a loop
    over numbers becomes vector code.
    """
    length = bit_length(I(magnitude))
    # The exponent code is 1 also for subnormals: their last bit weighs as much.
    code_exponent = max(I(1), I(I(length + I(exponent)) + I(14)))
    places = I(I(code_exponent - I(25)) - I(exponent))  # that are rounded away; where below 0, that are added
    wide = shift_left(I(magnitude), max(I(-places), I(0)))
    places = min(max(places, I(0)), I(31))
    kept = shift_right(wide, places)
    lost, half = I(wide - shift_left(kept, places)), shift_left(I(1), max(I(places - I(1)), I(0)))
    up = I(lost > half) | I(I(lost == half) & I(kept & I(1)))
    # The leading bit, 1024, of what is kept adds one to the exponent code; so does a carry.
    code = min(I(I(shift_left(I(code_exponent - I(1)), I(10)) + kept) + up), I(largest))
    return I(shift_left(I(negative), I(15)) | (I(0) if magnitude == 0 else code))


@compiled
def half_of_single(bits: Integer, largest: Integer) -> np.int32:
    """The code nearest to the fp32 number with these bits (of an int32 or uint32), which is finite."""
    word = I(bits)
    exponent = I(shift_right(word, I(23)) & I(255))
    magnitude = I(I(word & I(0x7FFFFF)) | (I(0x800000) if exponent != I(0) else I(0)))
    return half_code(I(shift_right(word, I(31)) & I(1)), magnitude, I(max(I(1), exponent) - I(150)), largest)


@compiled
def significand_of(code: Integer) -> np.int32:
    """m of a code whose value is m * 2^(exponent_of(code) - 25), without sign, not normalised."""
    return I(I(I(code) & I(0x3FF)) | (I(0x400) if I(I(code) & I(0x7C00)) != I(0) else I(0)))


@compiled
def exponent_of(code: Integer) -> np.int32:
    """e of a code whose value is significand_of(code) * 2^(e - 25)."""
    return max(I(1), I(shift_right(I(code), I(10)) & I(31)))


@compiled
def clamped(code: Integer) -> Integer:
    """The code itself, or that of +-65504 where its exponent code is 31."""
    return code if code & 0x7C00 != 0x7C00 else code & 0x8000 | IEEE_LARGEST


def operands() -> tuple[I16, I16]:
    """What the matrix unit makes of each code: signed significands of 11 bits, 1024 or more unless 0, and exponents.

    Returns:
        (65536,) int16 m, with sign, subnormals normalised; (65536,) int16 e, `NO_EXPONENT` for zeros. The value is
        m * 2^(e - 25).
    """
    code = np.arange(1 << 16)
    e, m = code >> 10 & 31, code & 0x3FF
    m = np.where(e > 0, m + 1024, m)
    e = np.maximum(e, 1)
    for _ in range(10):
        small = (m > 0) & (m < 1024)
        m, e = np.where(small, 2 * m, m), np.where(small, e - 1, e)
    return np.where(code & 0x8000, -m, m).astype(np.int16), np.where(m > 0, e, NO_EXPONENT).astype(np.int16)


def value(code: NDArray[np.uint16]) -> NDArray[np.float32]:
    """What codes stand for; those with exponent code 31 are ordinary numbers, too. Exact in float32."""
    m, e = operands()
    exponent = np.maximum(e[code], -24) - 25
    return np.asarray(np.ldexp(m[code].astype(np.float32), exponent), np.float32)
