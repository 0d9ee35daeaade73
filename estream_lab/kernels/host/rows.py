"""An embedding of which nothing but rows is taken: they lie as in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32
from estream_lab.kernels.host.bf16 import widen


@dataclass(frozen=True, eq=False)
class PlainRows:
    """A matrix (N, K): see `projection.Rows`.

    Attributes:
        weights: (N, K) float32, or uint16, the bits of bf16 numbers.
    """

    weights: NDArray[np.float32] | NDArray[np.uint16]

    @property
    def n(self) -> int:
        """N, outputs."""
        return int(self.weights.shape[0])

    @property
    def k(self) -> int:
        """K, inputs."""
        return int(self.weights.shape[1])

    @property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        return self.weights.nbytes

    def rows(self, ids: NDArray[np.integer], out: F32) -> F32:
        """Write the rows of these numbers (T,) to out (T, K); returns out."""
        if self.weights.dtype == np.float32:
            return np.take(self.weights, ids, axis=0, out=out, mode="clip")  # "raise" would go through a copy
        for row, i in zip(out, ids, strict=True):
            widen(self.weights[i], row)
        return out
