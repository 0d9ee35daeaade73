"""SiLU on every lane: a table with one fp16 result for each fp16 code (docs/numerics.md, "SwiGLU")."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.exact.half import clamped, value


@lru_cache(maxsize=1)
def silu_table() -> NDArray[np.uint16]:
    """x / (1 + exp(-x)) for each code x, inputs clamped to +-65504 first, rounded to nearest, ties to even.

    fp64 errs by some 2^-52, and no result lies that close to the middle between two codes: tests hold every entry to
    fifty decimal digits.

    Returns:
        (65536,) uint16, read-only.
    """
    codes = np.array([clamped(code) for code in range(1 << 16)], np.uint16)
    x = value(codes).astype(np.float64)
    x = np.where(codes == 0x8000, -0.0, x)
    with np.errstate(over="ignore", under="ignore"):
        table = (x / (1 + np.exp(-x))).astype(np.float16).view(np.uint16)
    table.flags.writeable = False
    return np.asarray(table)
