"""Dense projections: x Wᵀ with fp32 weights in strips of 32 columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, I32, as_input, as_output
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.threads import run_workers, threads
from estream_lab.kernels.host.tile import ROW_BLOCK, strip_product
from estream_lab.kernels.host.vector_ir import COLUMNS, address, take_share


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


def panel_bytes(n: int, k: int) -> int:
    """Bytes of the panels of a projection with N outputs and K inputs."""
    return 4 * -(-n // COLUMNS) * COLUMNS * k


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


class LinearScratch:
    """All temporaries of `linear`, allocated once.

    Args:
        max_rows: most rows of one call.
        threads: the most threads that will run.
    """

    def __init__(self, max_rows: int, threads: int) -> None:
        self.threads = threads
        self.index = np.arange(max_rows, dtype=np.int32)  # the rows of x
        self.tiles = np.empty((threads, ROW_BLOCK, COLUMNS), np.float32)  # each thread's tile of sums

    @staticmethod
    def bytes_for(max_rows: int, threads: int) -> int:
        """`nbytes` of scratch memory for so many rows and threads."""
        return 4 * (max_rows + threads * ROW_BLOCK * COLUMNS)

    @property
    def nbytes(self) -> int:
        """Bytes of all temporaries."""
        return self.index.nbytes + self.tiles.nbytes


def linear(
    x: NDArray[np.float32],
    w: DensePanels,
    out: NDArray[np.float32] | None = None,
    scratch: LinearScratch | None = None,
) -> NDArray[np.float32]:
    """``x @ W.T`` in fp32.

    Every output is one chain of fused multiply-adds over ascending K, from 0: it does not depend on the other rows, on
    how rows are cut into calls, or on threads. Error: at most K * 2^-24 * sum |x_k w_k|.

    Args:
        x: (T, K) float32.
        w: packed weights.
        out: (T, N) float32 to write to, not overlapping x.
        scratch: temporaries; with these and `out`, nothing is allocated.

    Returns:
        (T, N) float32: `out` if given.

    Raises:
        ValueError: shapes that do not fit, or scratch memory for fewer rows.
    """
    x = as_input(x, np.float32, (None, w.k), "x")
    rows = len(x)
    out = np.empty((rows, w.n), np.float32) if out is None else as_output(out, np.float32, (rows, w.n), "out")
    panels = as_input(w.panels, np.float32, (None, w.k, COLUMNS), "panels")
    temporary = LinearScratch(rows, threads()) if scratch is None else scratch
    if rows > len(temporary.index):
        raise ValueError(f"scratch memory for {len(temporary.index)} rows cannot hold {rows}")
    index, tiles = temporary.index, temporary.tiles
    tasks = -(-rows // ROW_BLOCK) * len(panels)

    def work(counter: int, shares: int, worker: int) -> None:
        _linear(x, index, panels, out, tiles[worker], tasks, counter, shares)

    run_workers(work, tasks, min(threads(), temporary.threads))
    return out


@compiled
def _linear(x: F32, index: I32, panels: F32, out: F32, tile: F32, tasks: int, counter: int, shares: int) -> None:
    """Tasks are one (row block, strip) each, strips of one row block following each other; a share is a range."""
    rows, n = out.shape
    strips, depth = panels.shape[0], panels.shape[1]
    share = take_share(counter)
    while share < shares:
        for task in range(tasks * share // shares, tasks * (share + 1) // shares):
            first, strip = task // strips * ROW_BLOCK, task % strips
            count = min(ROW_BLOCK, rows - first)
            w = address(panels) + 4 * strip * depth * COLUMNS
            strip_product(address(x), address(index) + 4 * first, count, depth, w, depth, tile)
            left = strip * COLUMNS
            width = min(COLUMNS, n - left)
            for r in range(count):
                for j in range(width):
                    out[first + r, left + j] = tile[r, j]
        share = take_share(counter)
