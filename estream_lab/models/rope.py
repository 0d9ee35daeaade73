"""Rotary position embedding: the angles.

Su et al., "RoFormer" (arXiv 2104.09864), in the half-rotated form of the Llama family: element i of a head turns with
element i + D/2 by the angle position · θ^(-2i/D).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def rope_tables(positions: int, head_dim: int, theta: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """cos and sin, each (positions, head_dim / 2) float32, for positions 0, 1, ….

    Frequencies and angles are rounded to float32 as the reference implementation rounds them: at position 1,000 an
    angle's last float32 digit is worth 6e-5. Powers, cosines and sines are taken in float64 and rounded once, so that
    the tables don't depend on which of NumPy's SIMD paths the machine takes.
    """
    exponents = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    powers = (theta ** exponents.astype(np.float64)).astype(np.float32)
    frequencies = np.float32(1) / powers  # (D/2,)
    angles = np.arange(positions, dtype=np.float32)[:, None] * frequencies  # (positions, D/2)
    wide = angles.astype(np.float64)
    return np.cos(wide).astype(np.float32), np.sin(wide).astype(np.float32)
