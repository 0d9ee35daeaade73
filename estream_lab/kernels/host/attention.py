"""Causal attention over a key/value cache, with an online softmax over blocks of keys.

Blocks of keys lie at multiples of `KEYS`, wherever a chunk of queries starts, and a query never touches a key behind
it: so a token's result does not depend on how its prompt was cut into chunks. Extra memory is a few blocks a thread.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from estream_lab.kernels.host.arrays import as_input, as_output
from estream_lab.kernels.host.exponential import exp32
from estream_lab.kernels.host.threads import parallel
from estream_lab.kernels.host.tile import add_rows
from estream_lab.kernels.host.vector_ir import COLUMNS

KEYS = 64
"""Keys of a block, at absolute positions that are multiples of it."""

QUERIES = 48
"""Query rows of a task."""

LANES = 8
"""Partial sums of the softmax's denominator: key j of a block goes to lane j mod 8, the lanes are folded in halves."""


def attention(
    q: NDArray[np.float32],
    k_cache: NDArray[np.float32],
    v_cache: NDArray[np.float32],
    start: int,
    scale: float,
    out: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Causal attention: query row t, at position ``start + t``, sees the keys at 0..start + t.

    Args:
        q: (T, Hq, D) float32.
        k_cache: (Hkv, D, capacity) float32; keys of query head h are those of head ``h // (Hq // Hkv)``.
        v_cache: (Hkv, capacity, D) float32. Positions from start + T on are never read, in either cache.
        start: position of the first query; start + T <= capacity.
        scale: factor on the scores, usually D ** -0.5.
        out: (T, Hq * D) float32 to write to.

    Returns:
        (T, Hq * D) float32: `out` if given.

    Raises:
        ValueError: shapes that do not fit, or more positions than the cache holds.
    """
    q = as_input(q, np.float32, (None, None, None), "q")
    rows, heads, width = q.shape
    k_cache = as_input(k_cache, np.float32, (None, width, None), "k_cache")
    kv_heads, _, capacity = k_cache.shape
    v_cache = as_input(v_cache, np.float32, (kv_heads, capacity, width), "v_cache")
    if not kv_heads or heads % kv_heads:
        raise ValueError(f"{heads} query heads cannot share {kv_heads} key heads evenly")
    if not 0 <= start <= capacity - rows:
        raise ValueError(f"positions {start} to {start + rows - 1} do not fit a cache of {capacity}")
    shape = (rows, heads * width)
    out = np.empty(shape, np.float32) if out is None else as_output(out, np.float32, shape, "out")
    index = as_input(np.arange(max(rows, KEYS), dtype=np.int32), np.int32, (None,), "index")
    with parallel() as workers:
        _attention(q, k_cache, v_cache, start, np.float32(scale), index, out, workers)
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def _copy_block(k_cache, v_cache, head, first, count, keys, values):
    """Keys to (D, 64) strips and values to (64, D) strips of 32 columns; columns without a key or element are zero."""
    width = k_cache.shape[1]
    keys[:] = 0
    for d in range(width):
        for j in range(count):
            keys[j // COLUMNS, d, j % COLUMNS] = k_cache[head, d, first + j]
    for j in range(count):
        for d in range(width):
            values[d // COLUMNS, j, d % COLUMNS] = v_cache[head, first + j, d]


@njit(nogil=True, cache=True, error_model="numpy")
def _softmax_row(scores, seen, scale, state):
    """Turn the first `seen` of 64 scores into weights in place; state = (maximum, denominator). Returns the old sums'
    factor. Weights beyond `seen` become 0.
    """
    largest = state[0]
    for j in range(seen):
        scores[j] *= scale
        largest = max(largest, scores[j])
    factor = exp32(state[0] - largest)
    for j in range(seen):
        scores[j] = exp32(scores[j] - largest)
    scores[seen:] = 0
    lanes = np.zeros(LANES, np.float32)
    for j in range(0, KEYS, LANES):
        for i in range(LANES):
            lanes[i] += scores[j + i]
    half = LANES // 2
    while half:
        for i in range(half):
            lanes[i] += lanes[i + half]
        half //= 2
    state[0] = largest
    state[1] = state[1] * factor + lanes[0]
    return factor


@njit(nogil=True, cache=True, error_model="numpy")
def _attend(q, k_cache, v_cache, start, scale, index, out, head, first, rows, keys, values, scores, sums, state):
    """Query rows first..first + rows of one head."""
    heads, width = q.shape[1], q.shape[2]
    kv_head = head // (heads // k_cache.shape[0])
    strips = values.shape[0]
    padded = sums.shape[1]
    sums[:] = 0
    state[:, 0] = -np.inf
    state[:, 1] = 0
    last = start + first + rows - 1  # position of the last query
    for block in range(0, last + 1, KEYS):
        count = min(KEYS, last + 1 - block)
        _copy_block(k_cache, v_cache, kv_head, block, count, keys, values)
        # Rows before `blind` are behind this block; rows from `full` on see all of its keys.
        blind = max(0, block - start - first)
        full = min(rows, max(blind, block + KEYS - 1 - start - first))
        scores[:] = 0
        for s in range(KEYS // COLUMNS):
            add_rows(
                q, index, first + blind, rows - blind, head * width, heads * width,
                keys, s * width * COLUMNS, COLUMNS, width, scores, blind * KEYS + s * COLUMNS, KEYS,
            )  # fmt: skip
        for r in range(blind, rows):
            seen = min(KEYS, start + first + r - block + 1)
            factor = _softmax_row(scores[r], seen, scale, state[r])
            for d in range(padded):
                sums[r, d] *= factor
            if r < full:
                for s in range(strips):
                    add_rows(
                        scores, index, r, 1, 0, KEYS,
                        values, s * KEYS * COLUMNS, COLUMNS, seen, sums, r * padded + s * COLUMNS, padded,
                    )  # fmt: skip
        for s in range(strips):
            add_rows(
                scores, index, full, rows - full, 0, KEYS,
                values, s * KEYS * COLUMNS, COLUMNS, KEYS, sums, full * padded + s * COLUMNS, padded,
            )  # fmt: skip
    for r in range(rows):
        for d in range(width):
            out[first + r, head * width + d] = sums[r, d] / state[r, 1]


@njit(nogil=True, cache=True, error_model="numpy")
def _attention_share(q, k_cache, v_cache, start, scale, index, out, worker, workers):
    """The tasks (query block, head) of one worker: every `workers`-th, longest first."""
    total, heads, width = q.shape
    strips = -(-width // COLUMNS)
    keys = np.zeros((KEYS // COLUMNS, width, COLUMNS), np.float32)
    values = np.zeros((strips, KEYS, COLUMNS), np.float32)
    scores = np.zeros((QUERIES, KEYS), np.float32)
    sums = np.zeros((QUERIES, strips * COLUMNS), np.float32)
    state = np.zeros((QUERIES, 2), np.float32)
    for task in range(worker, -(-total // QUERIES) * heads, workers):
        first = task // heads * QUERIES
        rows = min(QUERIES, total - first)
        _attend(
            q, k_cache, v_cache, start, scale, index, out, task % heads, first, rows, keys, values, scores, sums, state
        )


@njit(nogil=True, cache=True, parallel=True, error_model="numpy")
def _attention(q, k_cache, v_cache, start, scale, index, out, workers):
    for worker in prange(workers):
        _attention_share(q, k_cache, v_cache, start, scale, index, out, worker, workers)
