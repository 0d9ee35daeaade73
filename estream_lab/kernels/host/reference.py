"""A plain NumPy version of each host kernel, equal to it bit for bit.

Slow and short: for tests and for readers. The fused multiply-add is made from fp64 operations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.host.attention import KEYS
from estream_lab.kernels.host.exponential import (
    C2,
    C3,
    C4,
    C5,
    C6,
    C7,
    HIGHEST,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    LOWEST,
    ROUND,
)
from estream_lab.kernels.host.norm import LANES as NORM_LANES
from estream_lab.kernels.host.vector_ir import COLUMNS, FOLD_LANES

F32 = NDArray[np.float32]


def fma(x: F32 | np.float32, y: F32 | np.float32, z: F32 | np.float32) -> F32:
    """``x * y + z`` of float32 numbers, rounded once.

    The product is exact in fp64. Their fp64 sum is rounded to odd (Boldo and Melquiond 2008), which a second rounding,
    to fp32, cannot spoil.
    """
    a = np.multiply(x, y, dtype=np.float64)
    b = np.asarray(z, np.float64)
    s = a + b
    t = s - a
    error = (a - (s - t)) + (b - t)  # what rounding s lost (Knuth)
    even = (s.view(np.int64) & 1) == 0
    toward = np.where(error > 0, np.inf, -np.inf)
    odd = np.where((error != 0) & even, np.nextafter(s, toward), s)
    return odd.astype(np.float32)


def exp32(x: F32) -> F32:
    """See `exponential.exp32`."""
    x = np.minimum(np.maximum(x, LOWEST), HIGHEST)
    n = (x * LOG2_E + ROUND) - ROUND
    r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x))
    p = np.full_like(r, C7)
    for c in (C6, C5, C4, C3, C2, np.float32(1), np.float32(1)):
        p = fma(p, r, c)
    return np.asarray(p * ((n.astype(np.int32) + 127) << 23).view(np.float32), np.float32)


def silu(x: F32) -> F32:
    """See `exponential.silu`."""
    return np.asarray(x / (np.float32(1) + exp32(-x)), np.float32)


def matmul(x: F32, w: F32) -> F32:
    """``x @ w`` of (T, K) and (K, N): one chain of fused multiply-adds over ascending K."""
    c = np.zeros((len(x), w.shape[1]), np.float32)
    for k in range(len(w)):
        c = fma(x[:, k, None], w[k], c)
    return c


def linear(x: F32, w: F32) -> F32:
    """``x @ w.T`` with w (N, K): see `dense.linear`."""
    return matmul(x, np.asarray(w, np.float32).T)


def fold(lanes: F32) -> F32:
    """Sum the last axis, a power of two long, by halves."""
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[..., :half] + lanes[..., half:]
    return lanes[..., 0]


def rms_norm(x: F32, weight: F32, eps: float) -> F32:
    """See `norm.rms_norm`."""
    rows, width = x.shape
    padded = np.pad(x, ((0, 0), (0, -width % NORM_LANES)))
    lanes = np.zeros((rows, NORM_LANES), np.float32)
    for i in range(0, width, NORM_LANES):
        lanes = fma(padded[:, i : i + NORM_LANES], padded[:, i : i + NORM_LANES], lanes)
    scale = np.float32(1) / np.sqrt(fold(lanes) / np.float32(width) + np.float32(eps))
    return np.asarray(weight * (x * scale[:, None]), np.float32)


def rotate_half(x: F32, cos: F32, sin: F32) -> F32:
    """See `norm.rotate_half`; returns the result."""
    a, b = np.split(x, 2, axis=-1)
    c, s = cos[:, None], sin[:, None]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def strips(k: F32, v: F32) -> tuple[F32, F32]:
    """Keys and values (T, Hkv, D) from position 0 on as a cache: see `cache`."""
    positions, heads, width = k.shape
    more, wider = -positions % COLUMNS, -width % COLUMNS
    keys = np.pad(k, ((0, more), (0, 0), (0, 0))).reshape(-(-positions // COLUMNS), COLUMNS, heads, width)
    values = np.pad(v, ((0, more), (0, 0), (0, wider))).reshape(positions + more, heads, -(-width // COLUMNS), COLUMNS)
    return np.ascontiguousarray(keys.transpose(2, 0, 3, 1)), np.ascontiguousarray(values.transpose(1, 2, 0, 3))


def attention(q: F32, k: F32, v: F32, start: int, scale: float) -> F32:
    """See `attention.attention`, with k and v (positions, Hkv, D): one query and head at a time."""
    rows, heads, width = q.shape
    group = heads // k.shape[1]
    out = np.empty((rows, heads, width), np.float32)
    for t in range(rows):
        for h in range(heads):
            seen = start + t + 1
            out[t, h] = _attend(q[t, h], k[:seen, h // group].T, v[:seen, h // group], np.float32(scale))
    return out.reshape(rows, heads * width)


def _attend(q: F32, keys: F32, values: F32, scale: np.float32) -> F32:
    largest, denominator = np.array(-np.inf, np.float32), np.array(0, np.float32)
    sums = np.zeros((1, len(q)), np.float32)
    for block in range(0, len(values), KEYS):
        scores = matmul(q[None], keys[:, block : block + KEYS])[0] * scale
        new = np.asarray(np.maximum(largest, scores.max()), np.float32)
        factor = exp32(np.asarray(largest - new))
        p = exp32(scores - new)
        padded = np.zeros(KEYS, np.float32)
        padded[: len(p)] = p
        lanes = np.zeros(FOLD_LANES, np.float32)
        for part in padded.reshape(-1, FOLD_LANES):
            lanes = lanes + part
        denominator = np.asarray(denominator * factor + fold(lanes))
        sums = sums * factor
        for j in range(len(p)):
            sums = fma(p[j], values[block + j], sums)
        largest = new
    return np.asarray(sums[0] / denominator, np.float32)


def expert_bank(
    x: F32,
    y: F32,
    offsets: NDArray[np.int64],
    token: NDArray[np.int32],
    weight: F32,
    experts: list[tuple[F32, F32, F32]],
) -> None:
    """See `expert.expert_bank`; slot s has the weights experts[s] = gate (F, H), up (F, H), down (H, F)."""
    for s, (gate, up, down) in enumerate(experts):
        routes = slice(offsets[s], offsets[s + 1])
        rows = x[token[routes]]  # (c_s, H)
        act = silu(linear(rows, gate)) * linear(rows, up)  # (c_s, F)
        for t, a, result in zip(token[routes], weight[routes], linear(act, down), strict=True):
            y[t] += a * result
