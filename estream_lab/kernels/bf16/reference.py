"""A plain NumPy version of the bf16 operator, equal to it bit for bit. Slow and short: for tests and for readers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.bf16.dot import CHAIN
from estream_lab.kernels.bf16.rounding import SMALLEST
from estream_lab.kernels.host.reference import F32, fma, silu

BLOCK = 32

Quantised = tuple[NDArray[np.uint8], NDArray[np.float16]]
"""A projection: q (N, K) uint8 in 0..15 and d (N, K // 32) float16, as `quant.quantise_q4_0` returns them."""


def rounded(x: F32) -> F32:
    """The fp32 numbers that equal x rounded to bf16: see `rounding`."""
    bits = x.view(np.uint32)
    odd = (bits >> 16) & 1
    near = ((bits + np.uint32(0x7FFF) + odd) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), np.where(np.abs(x) < SMALLEST, np.float32(0), near))


def linear(x: F32, weights: Quantised) -> F32:
    """(R, N) float32 products of x (R, K), rounded to bf16, with Q4_0 weights.

    Blocks ascending: a chain of fused multiply-adds, times the scale, added by one more.
    """
    q, d = weights
    w = q.astype(np.float32) - np.float32(8)
    sums = np.zeros((len(x), len(w)), np.float32)
    for block in range(d.shape[1]):
        products = np.zeros_like(sums)
        for i in range(BLOCK):
            k = block * BLOCK + i - i % len(CHAIN) + CHAIN[i % len(CHAIN)]
            products = fma(x[:, k, None], w[:, k], products)
        sums = fma(products, d[:, block].astype(np.float32), sums)
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
        rows = rounded(x[token[routes]])
        act = rounded(silu(linear(rows, gate)) * linear(rows, up))
        for t, a, result in zip(token[routes], weight[routes], linear(act, down), strict=True):
            y[t] += a * result
