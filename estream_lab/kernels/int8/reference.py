"""A plain NumPy version of the int8 operators, equal to them bit for bit. Slow and short: for tests and for readers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.host.reference import F32, fma, silu
from estream_lab.kernels.int8.q8 import Q8
from estream_lab.kernels.int8.records import SMALLEST

BLOCK = 32

Quantised = tuple[NDArray[np.uint8], NDArray[np.float16]]
"""A projection: q (N, K) uint8 in 0..15 and d (N, K // 32) float16, as `quant.quantise_q4_0` returns them."""


def quantise(x: F32) -> tuple[NDArray[np.int8], F32]:
    """int8 activations: see `records`.

    Args:
        x: (R, K) float32, K a multiple of 32.

    Returns:
        q (R, K) int8 in -127..127, and scales (R, K // 32) float32. Of a block that isn't finite, q means nothing.
    """
    blocks = x.reshape(len(x), x.shape[1] // BLOCK, BLOCK)
    largest = np.abs(blocks).max(axis=-1)  # NaN where there is one
    finite, something = np.isfinite(largest), ~(largest < SMALLEST)
    seen = finite & something
    inverse = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=seen)
    y = np.where(finite[..., None], blocks, np.float32(0)) * inverse[..., None]
    q = np.rint(y)
    factor = np.divide(_sums(y * q), _sums(q * q), out=np.zeros_like(largest), where=seen)
    scale = np.where(finite, np.where(seen, largest, 0) / np.float32(127) * factor, np.nan).astype(np.float32)
    return q.astype(np.int8).reshape(x.shape), scale


def _sums(blocks: F32) -> F32:
    """Of the last axis, a power of two: its upper half is added to the lower one until one number is left."""
    while blocks.shape[-1] > 1:
        lower, upper = np.split(blocks, 2, axis=-1)
        blocks = lower + upper
    return blocks[..., 0]


def linear(q: NDArray[np.int8], scale: F32, weights: Quantised) -> F32:
    """(R, N) float32 products with Q4_0 weights: see `linear_q8`."""
    nibbles, d = weights
    return linear_q8(q, scale, (nibbles.astype(np.int8) - np.int8(8), d))


def linear_q8(q: NDArray[np.int8], scale: F32, weights: Q8) -> F32:
    """(R, N) float32 products: blocks ascending, each exact and then added by one fused multiply-add."""
    signed, d = weights
    x = q.reshape(len(q), q.shape[1] // BLOCK, BLOCK).astype(np.int64)
    w = signed.reshape(len(signed), x.shape[1], BLOCK).astype(np.int64)
    sums = np.zeros((len(q), len(signed)), np.float32)
    for block in range(x.shape[1]):
        exact = (x[:, block] @ w[:, block].T).astype(np.float32)
        sums = fma(exact, d[:, block].astype(np.float32) * scale[:, block, None], sums)
    return sums


def expert_bank(
    x: F32,
    y: F32,
    offsets: NDArray[np.int64],
    token: NDArray[np.int32],
    weight: F32,
    experts: list[tuple[Quantised, Quantised, Quantised]],
) -> None:
    """See `expert.expert_bank`; slot s has the weights experts[s] = gate (F, H), up (F, H), down (H, F)."""
    for s, (gate, up, down) in enumerate(experts):
        routes = slice(offsets[s], offsets[s + 1])
        rows = quantise(x[token[routes]])
        act = quantise(silu(linear(*rows, gate)) * linear(*rows, up))
        for t, a, result in zip(token[routes], weight[routes], linear(*act, down), strict=True):
            y[t] += a * result
