"""The activations of a decoder's layers, made once and overwritten layer by layer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.host import AttentionScratch, LinearScratch, LinearSizes
from estream_lab.models.spec import ModelSpec

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Workspace:
    """Everything that `Decoder.attend` writes for a chunk of T tokens, but the keys and values that stay.

    Attributes:
        x: (T, H), the residual stream.
        normed: (T, H), the experts' input; before that, what attention takes and what it adds to x.
        q, mixed: (T, Hq*D), queries and attention's result.
        k, v: (T, Hkv*D).
        logits: (T, E), the router's.
        linear, attention: temporaries of these kernels.
    """

    x: Array
    normed: Array
    q: Array
    k: Array
    v: Array
    mixed: Array
    logits: Array
    linear: LinearScratch
    attention: AttentionScratch

    @classmethod
    def make(
        cls, spec: ModelSpec, rows: int, threads: int, sizes: LinearSizes, normed: Array | None = None
    ) -> Workspace:
        """The workspace of a decoder for chunks of up to ``rows`` tokens.

        Args:
            spec: the model.
            rows: T.
            threads: the most threads that kernels will use.
            sizes: temporaries of its projections.
            normed: (T, H) float32 where the experts' input goes, a lane's x; an array of its own by default.
        """
        arrays = {name: np.empty(shape, np.float32) for name, shape in _shapes(spec, rows).items()}
        return cls(
            **arrays,
            normed=np.empty((rows, spec.hidden), np.float32) if normed is None else normed,
            linear=LinearScratch(rows, threads, sizes),
            attention=AttentionScratch(spec.head_dim, threads),
        )

    def first(self, rows: int) -> Workspace:
        """The same memory for a chunk of ``rows`` tokens, at most T."""
        return replace(
            self,
            x=self.x[:rows],
            normed=self.normed[:rows],
            q=self.q[:rows],
            k=self.k[:rows],
            v=self.v[:rows],
            mixed=self.mixed[:rows],
            logits=self.logits[:rows],
        )

    @staticmethod
    def bytes_for(spec: ModelSpec, rows: int, threads: int, sizes: LinearSizes) -> int:
        """`nbytes` of a workspace of this size."""
        activations = 4 * sum(math.prod(shape) for shape in _shapes(spec, rows).values())
        linear = LinearScratch.bytes_for(rows, threads, sizes)
        return activations + linear + AttentionScratch.bytes_for(spec.head_dim, threads)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays and temporaries but `normed`, which is the lane's."""
        arrays = (self.x, self.q, self.k, self.v, self.mixed, self.logits)
        return sum(array.nbytes for array in arrays) + self.linear.nbytes + self.attention.nbytes


def _shapes(spec: ModelSpec, rows: int) -> dict[str, tuple[int, int]]:
    return {
        "x": (rows, spec.hidden),
        "q": (rows, spec.query_width),
        "k": (rows, spec.key_width),
        "v": (rows, spec.key_width),
        "mixed": (rows, spec.query_width),
        "logits": (rows, spec.experts),
    }
