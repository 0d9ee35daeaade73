"""A key/value cache in strips of 32 columns: attention multiplies by them where they lie, without a copy.

    keys[h, s, d, j]     element d of the key at position 32 s + j of head h: (Hkv, S, D, 32)
    values[h, p, t, j]   element 32 p + j of the value at position t of head h: (Hkv, P, 32 S, 32)

There are S = ceil(positions / 32) and P = ceil(D / 32) strips. Elements of values beyond the head's size are never
written, and must be finite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, as_input, as_output
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.threads import run_workers, threads
from estream_lab.kernels.host.vector_ir import COLUMNS, take_share

Shape = tuple[int, int, int, int]


def cache_shapes(kv_heads: int, width: int, positions: int) -> tuple[Shape, Shape]:
    """Shapes of keys and of values, both float32, of a cache for `positions` positions of heads of `width` elements."""
    strips, parts = -(-positions // COLUMNS), -(-width // COLUMNS)
    return (kv_heads, strips, width, COLUMNS), (kv_heads, parts, strips * COLUMNS, COLUMNS)


def remember(
    k: NDArray[np.float32],
    v: NDArray[np.float32],
    start: int,
    keys: NDArray[np.float32],
    values: NDArray[np.float32],
) -> None:
    """Write keys and values of consecutive positions into a cache.

    Args:
        k: (T, Hkv, D) float32, row t at position ``start + t``.
        v: (T, Hkv, D) float32, likewise.
        start: position of the first row.
        keys: (Hkv, S, D, 32) float32, to write to.
        values: (Hkv, P, 32 S, 32) float32, to write to.

    Raises:
        ValueError: shapes that do not fit, or more positions than the cache holds.
    """
    k = as_input(k, np.float32, (None, None, None), "k")
    rows, heads, width = k.shape
    v = as_input(v, np.float32, k.shape, "v")
    keys = as_output(keys, np.float32, (heads, keys.shape[1], width, COLUMNS), "keys")
    shape = cache_shapes(heads, width, keys.shape[1] * COLUMNS)[1]
    values = as_output(values, np.float32, shape, "values")
    if not 0 <= start <= shape[2] - rows:
        raise ValueError(f"positions {start} to {start + rows - 1} do not fit a cache of {shape[2]}")
    first = start // COLUMNS  # strip
    strips = -(-(start + rows) // COLUMNS) - first

    def work(counter: int, shares: int, worker: int) -> None:
        _remember(k, v, start, first, keys, values, counter, shares)

    tasks = heads * strips
    run_workers(work, tasks, min(threads(), max(1, tasks)), tasks)


@compiled
def _remember(k: F32, v: F32, start: int, first: int, keys: F32, values: F32, counter: int, shares: int) -> None:
    """A share is a strip of positions of one head: a strip of keys fits into the first-level cache."""
    rows, heads, width = k.shape
    share = take_share(counter)
    while share < shares:
        head, strip = share % heads, first + share // heads
        left = strip * COLUMNS
        for position in range(max(start, left), min(start + rows, left + COLUMNS)):
            row, column = position - start, position - left
            for d in range(width):
                keys[head, strip, d, column] = k[row, head, d]
            for part in range(values.shape[1]):
                at = part * COLUMNS
                for j in range(min(COLUMNS, width - at)):
                    values[head, part, position, j] = v[row, head, at + j]
        share = take_share(counter)
