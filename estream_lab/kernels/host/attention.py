"""Causal attention over a key/value cache, with an online softmax over blocks of keys.

Blocks of keys lie at multiples of `KEYS`, wherever a chunk of queries starts, and a query never touches a key behind
it: so a token's result does not depend on how its prompt was cut into chunks. Extra memory is a few blocks a thread.
Keys and values are multiplied by where they lie (`cache`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, I32, as_input, as_output
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.cache import cache_shapes
from estream_lab.kernels.host.exponential import exp32
from estream_lab.kernels.host.threads import run_workers, threads
from estream_lab.kernels.host.tile import add_rows
from estream_lab.kernels.host.vector_ir import COLUMNS, MAX_ROWS, address, largest_of, sum_of, take_share

KEYS = 64
"""Keys of a block, at absolute positions that are multiples of it."""

QUERIES = 192
"""Query rows of a task."""

_sum, _largest = sum_of(KEYS), largest_of(KEYS)


def attention(
    q: NDArray[np.float32],
    keys: NDArray[np.float32],
    values: NDArray[np.float32],
    start: int,
    scale: float,
    out: NDArray[np.float32] | None = None,
    scratch: AttentionScratch | None = None,
) -> NDArray[np.float32]:
    """Causal attention: query row t, at position ``start + t``, sees the keys at 0..start + t.

    Args:
        q: (T, Hq, D) float32.
        keys: (Hkv, S, D, 32) float32, see `cache`; those of query head h are of head ``h // (Hq // Hkv)``.
        values: (Hkv, P, 32 S, 32) float32. What stands for positions from start + T on is of no effect.
        start: position of the first query; start + T <= 32 S.
        scale: factor on the scores, usually D ** -0.5.
        out: (T, Hq * D) float32 to write to.
        scratch: temporaries; with these and `out`, nothing is allocated.

    Returns:
        (T, Hq * D) float32: `out` if given.

    Raises:
        ValueError: shapes that do not fit, more positions than the cache holds, or scratch memory for heads of another
            size.
    """
    q = as_input(q, np.float32, (None, None, None), "q")
    rows, heads, width = q.shape
    keys = as_input(keys, np.float32, (None, None, width, COLUMNS), "keys")
    kv_heads, strips = keys.shape[:2]
    capacity = strips * COLUMNS
    values = as_input(values, np.float32, cache_shapes(kv_heads, width, capacity)[1], "values")
    if not kv_heads or heads % kv_heads:
        raise ValueError(f"{heads} query heads cannot share {kv_heads} key heads evenly")
    if not 0 <= start <= capacity - rows:
        raise ValueError(f"positions {start} to {start + rows - 1} do not fit a cache of {capacity}")
    shape = (rows, heads * width)
    out = np.empty(shape, np.float32) if out is None else as_output(out, np.float32, shape, "out")
    temporary = AttentionScratch(width, threads()) if scratch is None else scratch
    if width != temporary.width:
        raise ValueError(f"scratch memory for heads of {temporary.width} cannot hold heads of {width}")
    index, blocks = temporary.index, temporary.blocks
    tasks = -(-rows // QUERIES) * heads

    def work(counter: int, shares: int, worker: int) -> None:
        b = blocks[worker]
        _attention(
            q, keys, values, start, np.float32(scale), index, out, tasks, counter, shares,
            b.queries, b.scores, b.sums, b.state,
        )  # fmt: skip

    run_workers(work, tasks, min(threads(), len(blocks)))
    return out


class AttentionScratch:
    """All temporaries of `attention`, allocated once.

    Args:
        width: D, a head's size.
        threads: the most threads that will run.
    """

    def __init__(self, width: int, threads: int) -> None:
        self.width = width
        self.index = np.arange(QUERIES, dtype=np.int32)  # a task's rows
        self.blocks = [_Blocks(width) for _ in range(threads)]

    @staticmethod
    def bytes_for(width: int, threads: int) -> int:
        """`nbytes` of scratch memory of this size."""
        padded = -(-width // COLUMNS) * COLUMNS
        block = QUERIES * (width + KEYS + padded + 2)
        return 4 * (QUERIES + threads * block)

    @property
    def nbytes(self) -> int:
        """Bytes of all temporaries."""
        return self.index.nbytes + sum(array.nbytes for block in self.blocks for array in vars(block).values())


class _Blocks:
    """One thread's blocks."""

    def __init__(self, width: int) -> None:
        padded = -(-width // COLUMNS) * COLUMNS
        # beside each other: in q a head's rows may lie a power of two apart, where they share a few lines of the cache
        self.queries = np.zeros((QUERIES, width), np.float32)
        self.scores = np.zeros((QUERIES, KEYS), np.float32)
        self.sums = np.zeros((QUERIES, padded), np.float32)
        self.state = np.zeros((QUERIES, 2), np.float32)  # maximum and denominator of each query


@compiled
def _softmax_row(scores: F32, r: int, seen: int, scale: np.float32, state: F32) -> np.float32:
    """Turn the first `seen` of row r's 64 scores into weights, in place, and the others into 0.

    Updates the row's maximum and denominator in `state`; returns the factor for what was summed before.
    """
    row = address(scores) + 4 * r * KEYS
    for j in range(KEYS):
        scores[r, j] = scores[r, j] * scale if j < seen else -np.inf
    before = state[r, 0]
    found = _largest(row)
    largest = before if found < before else found  # NaN where a score is
    for j in range(KEYS):
        scores[r, j] = exp32(scores[r, j] - largest) if j < seen else np.float32(0)
    factor = exp32(before - largest)
    state[r, 0] = largest
    state[r, 1] = state[r, 1] * factor + _sum(row)
    return factor


@compiled
def _attention(
    q: F32, keys: F32, values: F32, start: int, scale: np.float32, index: I32, out: F32, tasks: int, counter: int,
    shares: int, queries: F32, scores: F32, sums: F32, state: F32,
) -> None:  # fmt: skip
    """Tasks are one (block of queries, head) each; a share is every `shares`-th of them."""
    rows, heads = q.shape[0], q.shape[1]
    share = take_share(counter)
    while share < shares:
        # Backwards, because later queries see more keys: the longest tasks come first.
        for task in range(tasks - 1 - share, -1, -shares):
            first = task // heads * QUERIES
            _attend(
                q, keys, values, start, scale, index, out, task % heads, first, min(QUERIES, rows - first),
                queries, scores, sums, state,
            )  # fmt: skip
        share = take_share(counter)


@compiled
def _add_values(
    values: F32, block: int, scores: F32, sums: F32, index: I32, first: int, rows: int, seen: int, step: int
) -> None:
    """sums[r] += scores[r, :n] values[:n] for `rows` rows from `first` on; the i-th of them sees n = seen + i * step.

    Values (P, 32 S, 32) are those of one head, of which the first stands at `block`.

    Rows go together as far as the first one sees, then by themselves: none touches a key beyond its own.
    """
    width, padded = scores.shape[1], sums.shape[1]
    one = int(np.int64(1))  # a plain 1, like any constant in a call, would have the kernel compiled for it once more
    for s in range(values.shape[0]):
        strip = address(values[s]) + 4 * block * COLUMNS
        out = address(sums) + 4 * (first * padded + s * COLUMNS)
        add_rows(address(scores), address(index) + 4 * first, rows, width, strip, seen, out, padded)
        for i in range(1, rows if step else 1):
            add_rows(
                address(scores) + 4 * seen, address(index) + 4 * (first + i), one, width, strip + 4 * seen * COLUMNS,
                i * step, out + 4 * i * padded, padded,
            )  # fmt: skip


@compiled
def _attend(
    q: F32, keys: F32, values: F32, start: int, scale: np.float32, index: I32, out: F32, head: int, first: int,
    rows: int, queries: F32, scores: F32, sums: F32, state: F32,
) -> None:  # fmt: skip
    """Query rows first..first + rows of one head."""
    heads, width = q.shape[1], q.shape[2]
    padded = sums.shape[1]
    for r in range(rows):
        state[r, 0], state[r, 1] = -np.inf, 0
        for d in range(padded):
            sums[r, d] = 0
        for d in range(width):
            queries[r, d] = q[first + r, head, d]
    here = start + first  # position of row 0
    kv = head // (heads // len(keys))
    for block in range(0, here + rows, KEYS):
        blind = max(0, block - here)  # rows before it are behind this block
        full = min(rows, max(blind, block + KEYS - 1 - here))  # rows from it on see all of the block
        for r in range(blind, rows):
            for j in range(KEYS):
                scores[r, j] = 0
        for s in range(-(-min(KEYS, here + rows - block) // COLUMNS)):
            add_rows(
                address(queries), address(index) + 4 * blind, rows - blind, width,
                address(keys[kv, block // COLUMNS + s]), width,
                address(scores) + 4 * (blind * KEYS + s * COLUMNS), scores.shape[1],
            )  # fmt: skip
        for r in range(blind, rows):
            seen = min(KEYS, here + r - block + 1)
            factor = _softmax_row(scores, r, seen, scale, state)
            for d in range(padded):
                sums[r, d] *= factor
        for r in range(blind, full, MAX_ROWS):
            _add_values(
                values[kv], block, scores, sums, index, r, min(MAX_ROWS, full - r), here + r - block + 1,
                int(np.int64(1)),
            )  # fmt: skip
        if full < rows:
            _add_values(values[kv], block, scores, sums, index, full, rows - full, scores.shape[1], int(np.int64(0)))
    for r in range(rows):
        for d in range(width):
            out[first + r, head * width + d] = sums[r, d] / state[r, 1]
