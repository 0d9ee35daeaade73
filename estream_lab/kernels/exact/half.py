"""fp16 by integers: codes to significands and exponents, and back by one rounding (docs/numerics.md, "Numbers")."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.arrays import I16, Integer
from estream_lab.kernels.exact.integer import bit_length

IEEE_LARGEST = 0x7BFF  # 65504, in the stages that know no exponent code 31
NO_EXPONENT = -10_000  # of a zero: it never decides which exponent of several is the largest


@compiled
def half_code(negative: Integer, magnitude: Integer, exponent: Integer, largest: Integer) -> Integer:
    """The code nearest to ``magnitude * 2 ** exponent``, ties to even, subnormals included, at most ``largest``.

    `magnitude` is below 2^62; `negative` is 0 or 1, and is kept for zeros.
    """
    if magnitude == 0:
        return negative << 15
    length = int(bit_length(magnitude))
    code_exponent = max(1, length - 1 + exponent + 15)  # 1 also for subnormals: their last bit weighs as much
    shift = code_exponent - 25 - exponent  # places that are rounded away
    if shift <= 0:
        kept = magnitude << -shift
    elif shift > length:  # less than half of the last place
        kept = 0
    else:
        kept = magnitude >> shift
        lost, half = magnitude & ((1 << shift) - 1), 1 << (shift - 1)
        if lost > half or (lost == half and kept & 1):
            kept += 1
    # The leading bit, 1024, of what is kept adds one to the exponent code; so does a carry.
    return negative << 15 | min(((code_exponent - 1) << 10) + kept, largest)


@compiled
def half_of_single(bits: Integer, largest: Integer) -> Integer:
    """The code nearest to the fp32 number with these bits, which is finite."""
    exponent = bits >> 23 & 255
    magnitude = (bits & 0x7FFFFF) | (0x800000 if exponent else 0)
    return half_code(bits >> 31 & 1, magnitude, max(1, exponent) - 150, largest)


@compiled
def significand_of(code: Integer) -> Integer:
    """m of a code whose value is m * 2^(exponent_of(code) - 25), without sign, not normalised."""
    return (code & 0x3FF) | (0x400 if code & 0x7C00 else 0)


@compiled
def exponent_of(code: Integer) -> Integer:
    """e of a code whose value is significand_of(code) * 2^(e - 25)."""
    return max(1, code >> 10 & 31)


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
