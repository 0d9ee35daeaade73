"""bfloat16 as bits: NumPy has no such type. A bf16 number is the upper half of the float32 that equals it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def widen(bits: NDArray[np.uint16], out: NDArray[np.float32]) -> NDArray[np.float32]:
    """Write the numbers with these bits to out, of the same shape; returns out."""
    np.left_shift(bits, 16, out=out.view(np.uint32), dtype=np.uint32)
    return out


def narrow(numbers: NDArray[np.float32]) -> NDArray[np.uint16]:
    """The bits of float32 numbers of which every one is a bf16 number; others lose their lower halves."""
    return (np.ascontiguousarray(numbers, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def all_finite_bf16(bits: NDArray[np.uint16]) -> bool:
    """Whether the numbers with these bits are neither NaN nor infinite."""
    return not ((bits & 0x7F80) == 0x7F80).any()
