"""Dense projections: x Wᵀ in fp32, with fp32 or bf16 weights in strips of 32 columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, I32, U8, aligned, as_input
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.bf16 import widen
from estream_lab.kernels.host.projection import LinearScratch, LinearSizes, linear_call
from estream_lab.kernels.host.threads import run_workers, threads
from estream_lab.kernels.host.tile import ROW_BLOCK, strip_product, strip_product_bf16
from estream_lab.kernels.host.vector_ir import COLUMNS, address, take_share

_INDEX = np.arange(ROW_BLOCK, dtype=np.int32)  # rows of x lie beside each other
_INDEX.flags.writeable = False

SIZES = LinearSizes(row=0, panel=0, tile=4 * ROW_BLOCK * COLUMNS)
"""Temporaries of a product: each thread's tile of sums."""


@dataclass(frozen=True, eq=False)
class DensePanels:
    """fp32 weights of a dense projection: see `projection.Projection`.

    Attributes:
        n: N, outputs.
        k: K, inputs.
        panels: (ceil(N / 32), K, 32) float32, zero beyond column N.
    """

    n: int
    k: int
    panels: NDArray[np.float32]

    @staticmethod
    def bytes_for(n: int, k: int) -> int:
        """`nbytes` of a projection with N outputs and K inputs."""
        return 4 * -(-n // COLUMNS) * COLUMNS * k

    @staticmethod
    def sizes(k: int) -> LinearSizes:
        """Temporaries of `linear` with K inputs."""
        return SIZES

    @property
    def nbytes(self) -> int:
        """Bytes of the panels."""
        return self.panels.nbytes

    def linear(self, x: F32, out: F32 | None = None, scratch: LinearScratch | None = None) -> F32:
        """See `linear`."""
        return linear(x, self, out, scratch)

    def rows(self, ids: NDArray[np.integer], out: F32) -> F32:
        """Write the rows of these numbers (T,) to out (T, K); returns out."""
        for row, i in zip(out, ids, strict=True):
            row[:] = self.panels[i // COLUMNS, :, i % COLUMNS]
        return out


@dataclass(frozen=True, eq=False)
class BFloat16Panels:
    """bf16 weights of a dense projection, which are widened as they are used: see `projection.Projection`.

    Attributes:
        n: N, outputs.
        k: K, inputs.
        panels: (ceil(N / 32), K, 32) uint16, the bits of bf16 numbers in pairs of columns, zero beyond column N: column
            j of a strip is number ``2 * (j % 16) + j // 16`` (see `tile_ir.rows_kernel`).
    """

    n: int
    k: int
    panels: NDArray[np.uint16]

    @staticmethod
    def bytes_for(n: int, k: int) -> int:
        """`nbytes` of a projection with N outputs and K inputs."""
        return 2 * -(-n // COLUMNS) * COLUMNS * k

    @staticmethod
    def sizes(k: int) -> LinearSizes:
        """Temporaries of `linear` with K inputs."""
        return SIZES

    @property
    def nbytes(self) -> int:
        """Bytes of the panels."""
        return self.panels.nbytes

    def linear(self, x: F32, out: F32 | None = None, scratch: LinearScratch | None = None) -> F32:
        """See `linear`."""
        return linear(x, self, out, scratch)

    def rows(self, ids: NDArray[np.integer], out: F32) -> F32:
        """Write the rows of these numbers (T,) to out (T, K); returns out."""
        for row, i in zip(out, ids, strict=True):
            column = i % COLUMNS
            widen(self.panels[i // COLUMNS, :, 2 * (column % 16) + column // 16], row)
        return out


def pack_dense(w: NDArray[Any]) -> DensePanels:
    """Pack weights (N, K) of any floating type for `linear`; they are converted to fp32."""
    n, k = _shape(w)
    panels = _panels(n, k, np.float32)
    for s, panel in enumerate(panels):
        part = w[s * COLUMNS : (s + 1) * COLUMNS]  # (<= 32, K)
        panel[:, : len(part)] = part.T
        panel[:, len(part) :] = 0
    return DensePanels(n, k, panels)


def pack_bf16(w: NDArray[np.uint16]) -> BFloat16Panels:
    """Pack the bits of bf16 weights (N, K) for `linear`."""
    n, k = _shape(w)
    panels = _panels(n, k, np.uint16)
    pairs = panels.reshape(-1, k, COLUMNS // 2, 2)
    for s, pair in enumerate(pairs):
        for half in range(2):
            first = s * COLUMNS + half * COLUMNS // 2
            part = w[first : first + COLUMNS // 2]  # (<= 16, K)
            pair[:, : len(part), half] = part.T
            pair[:, len(part) :, half] = 0
    return BFloat16Panels(n, k, panels)


def _shape(w: NDArray[Any]) -> tuple[int, int]:
    if w.ndim != 2:
        raise ValueError(f"dense weights must have shape (N, K), not {w.shape}")
    return w.shape


def _panels(n: int, k: int, dtype: type[Any]) -> NDArray[Any]:
    strips = -(-n // COLUMNS)
    return aligned(strips * k * COLUMNS * np.dtype(dtype).itemsize).view(dtype).reshape(strips, k, COLUMNS)


def linear(
    x: NDArray[np.float32],
    w: DensePanels | BFloat16Panels,
    out: NDArray[np.float32] | None = None,
    scratch: LinearScratch | None = None,
) -> NDArray[np.float32]:
    """``x @ W.T`` in fp32.

    Every output is one chain of fused multiply-adds over ascending K, from 0: it does not depend on the other rows, on
    how rows are cut into calls, or on threads, nor on whether the panels hold numbers in fp32 or in bf16. Error: at
    most K * 2^-24 * sum |x_k w_k|.

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
    x, out, scratch = linear_call(x, w, SIZES, out, scratch)
    half = isinstance(w, BFloat16Panels)
    strips = -(-w.n // COLUMNS)
    panels = as_input(w.panels, np.uint16 if half else np.float32, (strips, w.k, COLUMNS), "panels")
    weights = panels.reshape(-1).view(np.uint8)  # one kernel for both: it takes addresses
    tiles, tasks = scratch.tiles, -(-len(x) // ROW_BLOCK) * strips

    def work(counter: int, shares: int, worker: int) -> None:
        tile = tiles[worker, : ROW_BLOCK * COLUMNS].reshape(ROW_BLOCK, COLUMNS)
        _linear(x, _INDEX, half, weights, out, tile, tasks, counter, shares)

    run_workers(work, tasks, min(threads(), scratch.threads))
    return out


@compiled
def _linear(
    x: F32, index: I32, half: bool, panels: U8, out: F32, tile: F32, tasks: int, counter: int, shares: int
) -> None:
    """Tasks are one (row block, strip) each, strips of one row block following each other; a share is a range."""
    rows, depth = x.shape
    n = out.shape[1]
    strips = -(-n // COLUMNS)
    strip_bytes = (2 if half else 4) * depth * COLUMNS
    share = take_share(counter)
    while share < shares:
        for task in range(tasks * share // shares, tasks * (share + 1) // shares):
            first, strip = task // strips * ROW_BLOCK, task % strips
            count = min(ROW_BLOCK, rows - first)
            x_rows, w = address(x) + 4 * first * depth, address(panels) + strip * strip_bytes
            if half:
                strip_product_bf16(x_rows, address(index), count, depth, w, depth, tile)
            else:
                strip_product(x_rows, address(index), count, depth, w, depth, tile)
            left = strip * COLUMNS
            width = min(COLUMNS, n - left)
            for r in range(count):
                for j in range(width):
                    out[first + r, left + j] = tile[r, j]
        share = take_share(counter)
