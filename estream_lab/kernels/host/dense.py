"""Dense projections: x Wᵀ with fp32 weights in strips of 32 columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from estream_lab.kernels.host.arrays import as_input, as_output
from estream_lab.kernels.host.threads import parallel
from estream_lab.kernels.host.tile import ROW_BLOCK, strip_product
from estream_lab.kernels.host.vector_ir import COLUMNS


@dataclass(frozen=True, eq=False)
class DensePanels:
    """Weights of a dense projection, packed for `linear`.

    Attributes:
        n: N, outputs.
        k: K, inputs.
        panels: (ceil(N / 32), K, 32) float32, zero beyond column N.
    """

    n: int
    k: int
    panels: NDArray[np.float32]

    @property
    def nbytes(self) -> int:
        """Bytes of the panels."""
        return self.panels.nbytes


def pack_dense(w: NDArray[Any]) -> DensePanels:
    """Pack weights (N, K) of any floating type for `linear`; they are converted to fp32."""
    if w.ndim != 2:
        raise ValueError(f"dense weights must have shape (N, K), not {w.shape}")
    n, k = w.shape
    strips = -(-n // COLUMNS)
    panels = np.zeros((strips, k, COLUMNS), np.float32)
    for s in range(strips):
        part = w[s * COLUMNS : (s + 1) * COLUMNS]  # (<= 32, K)
        panels[s, :, : len(part)] = part.T
    return DensePanels(n, k, panels)


def linear(x: NDArray[np.float32], w: DensePanels, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
    """``x @ W.T`` in fp32.

    Every output is one chain of fused multiply-adds over ascending K, from 0: it does not depend on the other rows, on
    how rows are cut into calls, or on threads. Error: at most K * 2^-24 * sum |x_k w_k|.

    Args:
        x: (T, K) float32.
        w: packed weights.
        out: (T, N) float32 to write to, not overlapping x.

    Returns:
        (T, N) float32: `out` if given.
    """
    x = as_input(x, np.float32, (None, w.k), "x")
    rows = len(x)
    out = np.empty((rows, w.n), np.float32) if out is None else as_output(out, np.float32, (rows, w.n), "out")
    panels = as_input(w.panels, np.float32, (None, w.k, COLUMNS), "panels")
    index = as_input(np.arange(rows, dtype=np.int32), np.int32, (rows,), "index")
    with parallel() as workers:
        _linear(x, index, panels, out, workers)
    return out


@njit(nogil=True, cache=True, error_model="numpy")
def _linear_share(x, index, panels, out, worker, workers):
    """The tiles (row block, strip) of one worker: every `workers`-th."""
    rows, n = out.shape
    strips, depth = panels.shape[0], panels.shape[1]
    tile = np.empty((ROW_BLOCK, COLUMNS), np.float32)
    for task in range(worker, -(-rows // ROW_BLOCK) * strips, workers):
        first, strip = task // strips * ROW_BLOCK, task % strips
        count = min(ROW_BLOCK, rows - first)
        strip_product(x, index, first, count, depth, panels, strip * depth * COLUMNS, depth, tile)
        left = strip * COLUMNS
        width = min(COLUMNS, n - left)
        for r in range(count):
            for j in range(width):
                out[first + r, left + j] = tile[r, j]


@njit(nogil=True, cache=True, parallel=True, error_model="numpy")
def _linear(x, index, panels, out, workers):
    for worker in prange(workers):
        _linear_share(x, index, panels, out, worker, workers)
