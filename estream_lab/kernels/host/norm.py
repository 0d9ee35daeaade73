"""RMS normalisation and rotary embedding, row by row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, as_input, as_output
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.vector_ir import fma

LANES = 16
"""Partial sums of a mean of squares: element i goes to lane i mod 16, the lanes are then folded in halves."""


def rms_norm(
    x: NDArray[np.float32], weight: NDArray[np.float32], eps: float, out: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """``weight * (x / sqrt(mean(x²) + eps))`` over the last axis, in fp32, each row by itself.

    Args:
        x: (T, H) float32.
        weight: (H,) float32.
        eps: added to the mean of squares.
        out: (T, H) float32 to write to; may be x.

    Returns:
        (T, H) float32: `out` if given.
    """
    x = as_input(x, np.float32, (None, None), "x")
    weight = as_input(weight, np.float32, (x.shape[1],), "weight")
    out = np.empty(x.shape, np.float32) if out is None else as_output(out, np.float32, x.shape, "out")
    _rms_norm(x, weight, np.float32(eps), np.empty(LANES, np.float32), out)
    return out


@compiled
def _rms_norm(x: F32, weight: F32, eps: np.float32, lanes: F32, out: F32) -> None:
    rows, width = x.shape
    for t in range(rows):
        for j in range(LANES):
            lanes[j] = 0
        whole = width - width % LANES
        for i in range(0, whole, LANES):
            for j in range(LANES):
                lanes[j] = fma(x[t, i + j], x[t, i + j], lanes[j])
        for i in range(whole, width):
            lanes[i - whole] = fma(x[t, i], x[t, i], lanes[i - whole])
        half = LANES // 2
        while half:
            for j in range(half):
                lanes[j] += lanes[j + half]
            half //= 2
        scale = np.float32(1) / np.sqrt(lanes[0] / np.float32(width) + eps)
        for i in range(width):
            out[t, i] = weight[i] * (x[t, i] * scale)


def rotate_half(x: NDArray[np.float32], cos: NDArray[np.float32], sin: NDArray[np.float32]) -> None:
    """Rotary embedding in place, in the half-rotated form: pairs are (i, i + D/2).

    Args:
        x: (T, heads, D) float32, D even; becomes ``(a cos - b sin, b cos + a sin)`` of its halves (a, b).
        cos: (T, D/2) float32 of each token's angles.
        sin: (T, D/2) float32.
    """
    x = as_output(x, np.float32, (None, None, None), "x")
    if x.shape[2] % 2:
        raise ValueError(f"a rotary head must have an even size, not {x.shape[2]}")
    angles = (x.shape[0], x.shape[2] // 2)
    _rotate_half(x, as_input(cos, np.float32, angles, "cos"), as_input(sin, np.float32, angles, "sin"))


@compiled
def _rotate_half(x: F32, cos: F32, sin: F32) -> None:
    rows, heads, width = x.shape
    half = width // 2
    for t in range(rows):
        for h in range(heads):
            for i in range(half):
                a, b = x[t, h, i], x[t, h, i + half]
                x[t, h, i] = a * cos[t, i] - b * sin[t, i]
                x[t, h, i + half] = b * cos[t, i] + a * sin[t, i]
