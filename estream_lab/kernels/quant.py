"""Q4_0: four-bit weights in blocks of 32 along K, with one fp16 scale a block.

A weight is ``(q - 8) * d`` with ``q`` in 0..15. The rule is ggml's reference one (`quantize_row_q4_0_ref`): the scale
is set by the weight of largest magnitude, sign included, so that this weight becomes ``q = 0``. Every step is one
correctly rounded fp32 operation, as in the `gguf` package, so that two packers write the same bytes.
"""

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError

BLOCK = 32
"""Weights that share a scale, along K."""

SCALE_LIMIT = 8192.0
"""Scales of this magnitude or more are refused: ``d * (q - 8)`` would overflow fp16, which the NPU computes in."""

_ROWS_AT_ONCE = 256  # keeps the temporaries of a large projection within a few megabytes


def quantise_q4_0(w: NDArray[np.float32]) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    """Quantise weights to Q4_0.

    Args:
        w: (N, K) float32, K a multiple of 32.

    Returns:
        q: (N, K) uint8, each in 0..15.
        d: (N, K // 32) float16 scales.

    Raises:
        EStreamError: a weight is NaN or infinite, or so large that its scale reaches `SCALE_LIMIT`.
        ValueError: K is not a multiple of 32.
    """
    w = np.ascontiguousarray(w, dtype=np.float32)
    if w.ndim != 2 or w.shape[1] % BLOCK:
        raise ValueError(f"Q4_0 needs weights of shape (N, K) with K a multiple of {BLOCK}, not {w.shape}")
    rows, depth = w.shape
    q = np.empty((rows, depth), np.uint8)
    d = np.empty((rows, depth // BLOCK), np.float16)
    for r in range(0, rows, _ROWS_AT_ONCE):
        part = slice(r, r + _ROWS_AT_ONCE)
        q[part], d[part] = _quantise_rows(w[part], r)
    return q, d


def _quantise_rows(w: NDArray[np.float32], first_row: int) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
    rows, depth = w.shape
    blocks = w.reshape(rows, depth // BLOCK, BLOCK)  # (N, K/32, 32)
    peak = _peak(blocks)
    if not np.isfinite(peak).all():
        _refuse_not_finite(w, first_row)
    exact = peak / np.float32(-8)  # (N, K/32)
    with np.errstate(over="ignore"):
        d = exact.astype(np.float16)
    _refuse_overflow(exact, d, first_row)
    with np.errstate(over="ignore", divide="ignore"):
        inverse = np.float32(1) / exact
    # Of an empty block, and below 2^-128, the inverse is infinite; the scale is 0 then, and q = 8 is weight 0.
    inverse[np.isinf(inverse)] = 0
    level = blocks * inverse[:, :, None]  # -8..8, rounded once more by the addition, as in ggml
    level += np.float32(8.5)
    q = np.minimum(level.astype(np.uint8), 15)
    return q.reshape(rows, depth), d


def _peak(blocks: NDArray[np.float32]) -> NDArray[np.float32]:
    """Of each block the weight of largest magnitude, sign included; the first of equals. NaN if it holds a NaN."""
    high, low = blocks.max(axis=-1), blocks.min(axis=-1)
    peak = np.where(high > -low, high, low)
    equals = high == -low
    if equals.any():
        tied = blocks[equals]  # (n, 32)
        peak[equals] = tied[np.arange(len(tied)), np.abs(tied).argmax(axis=-1)]
    return np.asarray(peak, np.float32)


def _refuse_not_finite(w: NDArray[np.float32], first_row: int) -> None:
    row, column = np.argwhere(~np.isfinite(w))[0]
    raise EStreamError(
        f"The weight at row {first_row + row}, column {column} is {w[row, column]}: Q4_0 needs finite weights,"
        " so mend or export the checkpoint again."
    )


def _refuse_overflow(exact: NDArray[np.float32], d: NDArray[np.float16], first_row: int) -> None:
    # The rounded scale decides: 8191.9 becomes 8192 in fp16.
    too_large = np.abs(d.astype(np.float32)) >= SCALE_LIMIT
    if too_large.any():
        row, block = np.argwhere(too_large)[0]
        raise EStreamError(
            f"The weights at row {first_row + row}, columns {block * BLOCK} to {block * BLOCK + BLOCK - 1} need a scale"
            f" of {abs(exact[row, block]):g}, and Q4_0 here allows less than {SCALE_LIMIT:g} (fp16 would overflow):"
            " use the f32 layout for this model."
        )


def dequantise_q4_0(q: NDArray[np.uint8], d: NDArray[np.float16]) -> NDArray[np.float32]:
    """Weights of a Q4_0 quantisation: ``(q - 8) * d``, exact in fp32 (four bits times eleven).

    Args:
        q: (N, K) uint8 in 0..15.
        d: (N, K // 32) float16.

    Returns:
        (N, K) float32.
    """
    rows, depth = q.shape
    signed = (q.astype(np.int8) - np.int8(8)).reshape(rows, depth // BLOCK, BLOCK)
    w: NDArray[np.float32] = signed.astype(np.float32) * d.astype(np.float32)[:, :, None]  # (N, K/32, 32)
    return w.reshape(rows, depth)
