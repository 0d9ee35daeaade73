"""What the dense projections of every kind of weights share: their type, their temporaries, the checks of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, aligned, as_input, as_output
from estream_lab.kernels.host.threads import threads


class Rows(Protocol):
    """A matrix (N, K) of which rows can be picked: an embedding."""

    @property
    def n(self) -> int:
        """N, outputs."""

    @property
    def k(self) -> int:
        """K, inputs."""

    @property
    def nbytes(self) -> int:
        """Bytes of the weights as held."""

    def rows(self, ids: NDArray[np.integer], out: NDArray[np.float32]) -> NDArray[np.float32]:
        """Write the rows of these numbers (T,), 0 <= id < N, to out (T, K), exactly; returns out."""


class Projection(Rows, Protocol):
    """Weights (N, K), packed for a product with rows."""

    @staticmethod
    def sizes(k: int) -> LinearSizes:
        """Temporaries of `linear` with K inputs."""

    def linear(
        self,
        x: NDArray[np.float32],
        out: NDArray[np.float32] | None = None,
        scratch: LinearScratch | None = None,
    ) -> NDArray[np.float32]:
        """``x @ W.T`` of x (T, K): float32 (T, N), `out` if given.

        An output depends on its own row alone: not on how rows are cut into calls, nor on threads, bit for bit.

        Raises:
            ValueError: shapes that do not fit, or scratch memory that is too small.
        """


@dataclass(frozen=True)
class LinearSizes:
    """Bytes of temporaries that a `linear` takes.

    Attributes:
        row: for each row of x. panel, tile: for each thread.
    """

    row: int
    panel: int
    tile: int

    def covering(self, other: LinearSizes) -> LinearSizes:
        """What serves both."""
        return LinearSizes(max(self.row, other.row), max(self.panel, other.panel), max(self.tile, other.tile))


class LinearScratch:
    """All temporaries of the projections of a model, allocated once.

    Args:
        max_rows: most rows of one call.
        threads: the most threads that will run.
        sizes: what its projections take.

    Attributes:
        rows: uint8 (max_rows * sizes.row,). panels: uint8 (threads, sizes.panel).
        tiles: float32 (threads, sizes.tile / 4).

    Raises:
        ValueError: no row, or no thread.
    """

    def __init__(self, max_rows: int, threads: int, sizes: LinearSizes) -> None:
        if min(max_rows, threads) < 1:
            raise ValueError("scratch memory needs at least one row and one thread")
        self.max_rows, self.threads, self.sizes = max_rows, threads, sizes
        self.rows = aligned(max_rows * sizes.row)
        self.panels = aligned(threads * sizes.panel).reshape(threads, -1)
        self.tiles = aligned(threads * sizes.tile).view(np.float32).reshape(threads, -1)

    @staticmethod
    def bytes_for(max_rows: int, threads: int, sizes: LinearSizes) -> int:
        """`nbytes` of scratch memory of this size."""
        return max_rows * sizes.row + threads * (sizes.panel + sizes.tile)

    @property
    def nbytes(self) -> int:
        """Bytes of all temporaries."""
        return self.rows.nbytes + self.panels.nbytes + self.tiles.nbytes

    def check(self, rows: int, sizes: LinearSizes) -> None:
        """See that a call fits.

        Raises:
            ValueError: it doesn't.
        """
        if rows > self.max_rows or sizes.covering(self.sizes) != self.sizes:
            raise ValueError(f"scratch memory for {self.max_rows} rows, {self.sizes}, cannot hold {rows}, {sizes}")


def linear_call(
    x: NDArray[np.float32],
    w: Rows,
    sizes: LinearSizes,
    out: NDArray[np.float32] | None,
    scratch: LinearScratch | None,
) -> tuple[F32, F32, LinearScratch]:
    """What a `linear` was called with, checked, and made where it wasn't given.

    Raises:
        ValueError: see `Projection.linear`.
    """
    x = as_input(x, np.float32, (None, w.k), "x")
    shape = (len(x), w.n)
    out = np.empty(shape, np.float32) if out is None else as_output(out, np.float32, shape, "out")
    scratch = LinearScratch(max(1, len(x)), threads(), sizes) if scratch is None else scratch
    scratch.check(len(x), sizes)
    return x, out, scratch
