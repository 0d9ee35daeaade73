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
    largest = np.abs(blocks).argmax(axis=-1, keepdims=True)
    peak = np.take_along_axis(blocks, largest, axis=-1)  # signed
    exact = peak / np.float32(-8)
    _refuse_unfit(w, exact[..., 0], first_row)
    with np.errstate(over="ignore", divide="ignore"):
        inverse = np.where(exact == 0, np.float32(0), np.float32(1) / exact)
    # Below 2^-128 the inverse overflows; the fp16 scale is 0 there, so q = 8 (weight 0) is the only sensible value.
    inverse[np.isinf(inverse)] = 0
    q = np.trunc(blocks * inverse + np.float32(8.5)).astype(np.uint8).clip(0, 15)
    return q.reshape(rows, depth), exact[..., 0].astype(np.float16)


def _refuse_unfit(w: NDArray[np.float32], scale: NDArray[np.float32], first_row: int) -> None:
    finite = np.isfinite(w)
    if not finite.all():
        row, column = np.argwhere(~finite)[0]
        raise EStreamError(
            f"The weight at row {first_row + row}, column {column} is {w[row, column]}: Q4_0 needs finite weights,"
            " so mend or export the checkpoint again."
        )
    # Compared after rounding: 8191.9 rounds to an fp16 scale of 8192.
    with np.errstate(over="ignore"):
        too_large = np.abs(scale.astype(np.float16).astype(np.float32)) >= SCALE_LIMIT
    if too_large.any():
        row, block = np.argwhere(too_large)[0]
        raise EStreamError(
            f"The weights at row {first_row + row}, columns {block * BLOCK} to {block * BLOCK + BLOCK - 1} need a scale"
            f" of {abs(scale[row, block]):g}, and Q4_0 here allows less than {SCALE_LIMIT:g} (fp16 would overflow):"
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
