"""Q8_0 weights: a byte each in blocks of 32 along K, with one fp16 scale a block, and how they lie in memory.

A weight is ``q * d`` with ``q`` in -127..127. The scale is fp16 of max|w| / 127; integers are rounded half to even,
against the scale before it was rounded, as for activations (`records`).

``q8-32x32`` is cut as q4-32x32 (`kernels.layout`): strips of 32 outputs, each a run of blocks, one for each 32 inputs.
Block (strip s, K block b) starts at byte ``(s * K/32 + b) * 1088``. Within it, element (k, j) is byte
``128 * (k // 4) + 4 * j + k % 4``, and the fp16 scale of column j is at byte ``1024 + 2 * j``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.kernels.layout import STRIP

BLOCK_BYTES = 1088
"""A 32 x 32 block: 1024 bytes of weights, 64 bytes of scales."""

WEIGHT_BYTES = 1024

_ROWS_AT_ONCE = 256  # keeps the temporaries of a large projection within a few megabytes

Q8 = tuple[NDArray[np.int8], NDArray[np.float16]]
"""Weights q (N, K) and scales d (N, K // 32)."""


def quantise_q8_0(w: NDArray[np.float32]) -> Q8:
    """Quantise weights to Q8_0.

    Args:
        w: (N, K) float32, K a multiple of 32.

    Returns:
        q (N, K) int8 in -127..127 and d (N, K // 32) float16. A block whose scale is zero in fp16 is zero.

    Raises:
        EStreamError: a weight is NaN or infinite, or so large that its scale is no fp16 number.
        ValueError: K is not a multiple of 32.
    """
    if w.ndim != 2 or w.shape[1] % STRIP:
        raise ValueError(f"Q8_0 needs weights of shape (N, K) with K a multiple of {STRIP}, not {w.shape}")
    w = np.ascontiguousarray(w, np.float32)
    q, d = np.empty(w.shape, np.int8), np.empty((len(w), w.shape[1] // STRIP), np.float16)
    for first in range(0, len(w), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        q[part], d[part] = _quantise_rows(w[part], first)
    return q, d


def _quantise_rows(w: NDArray[np.float32], first_row: int) -> Q8:
    blocks = w.reshape(len(w), w.shape[1] // STRIP, STRIP)
    largest = np.abs(blocks).max(axis=-1)  # (N, K/32), NaN where there is one
    with np.errstate(over="ignore"):
        d = (largest / np.float32(127)).astype(np.float16)
    if not np.isfinite(d).all():
        row, block = np.argwhere(~np.isfinite(d))[0]
        raise EStreamError(
            f"The weights at row {first_row + row}, columns {block * STRIP} to {block * STRIP + STRIP - 1} reach"
            f" {largest[row, block]:g}, and Q8_0 needs finite weights up to 127 times 65504: mend or export the"
            " checkpoint again, or keep this projection in fp32."
        )
    inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=d != 0)
    return np.rint(blocks * inverse[..., None]).astype(np.int8).reshape(w.shape), d


def dequantise_q8_0(q: NDArray[np.int8], d: NDArray[np.float16]) -> NDArray[np.float32]:
    """Weights of a Q8_0 quantisation, (N, K) float32: ``q * d``, exact (seven bits times eleven)."""
    blocks = q.reshape(len(q), d.shape[1], STRIP).astype(np.float32)
    return np.asarray(blocks * d.astype(np.float32)[..., None], np.float32).reshape(q.shape)


def pack_q8_32x32(q: NDArray[np.int8], d: NDArray[np.float16]) -> NDArray[np.uint8]:
    """Pack Q8_0 weights into q8-32x32.

    Args:
        q: (N, K) int8; N and K multiples of 32.
        d: (N, K // 32) float16.

    Returns:
        (N / 32, K / 32, 1088) uint8.

    Raises:
        ValueError: sizes that aren't multiples of 32, or scales that don't fit.
    """
    rows, depth = q.shape
    strips, blocks = rows // STRIP, depth // STRIP
    if rows % STRIP or depth % STRIP or d.shape != (rows, blocks):
        raise ValueError(f"weights of shape {q.shape} with scales of shape {d.shape} are no blocks of 32 x 32")
    packed = np.empty((strips, blocks, BLOCK_BYTES), np.uint8)
    t = q.view(np.uint8).reshape(strips, STRIP, blocks, STRIP // 4, 4)  # strip, column, block, k // 4, k % 4
    packed[..., :WEIGHT_BYTES] = t.transpose(0, 2, 3, 1, 4).reshape(strips, blocks, WEIGHT_BYTES)
    scales = d.astype("<f2").reshape(strips, STRIP, blocks).swapaxes(1, 2)  # strip, block, column
    packed[..., WEIGHT_BYTES:] = np.ascontiguousarray(scales).view(np.uint8)
    return packed


def unpack_q8_32x32(packed: NDArray[np.uint8]) -> Q8:
    """The inverse of `pack_q8_32x32`."""
    strips, blocks, _ = packed.shape
    t = packed[..., :WEIGHT_BYTES].reshape(strips, blocks, STRIP // 4, STRIP, 4)
    q = np.ascontiguousarray(t.transpose(0, 3, 1, 2, 4)).reshape(strips * STRIP, blocks * STRIP).view(np.int8)
    scales = np.ascontiguousarray(packed[..., WEIGHT_BYTES:]).view("<f2")  # strip, block, column
    return q, scales.swapaxes(1, 2).reshape(strips * STRIP, blocks).astype(np.float16)
