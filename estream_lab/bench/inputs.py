"""What a timed call computes on: activations and routes, drawn anew for each call and handed over as a file."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from estream_lab.bench.shapes import LayerShape
from estream_lab.routing import synthetic_routes

KINDS = ("gaussian", "lognormal", "outliers")
"""Distributions of activations: channels alike; of lognormal sizes (sigma 0.5); one in 512 thirty times as large."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """Of one call: x (T, H) float32, expert (T, k) int32, weight (T, k) float32, and the file that holds all three."""

    x: NDArray[np.float32]
    expert: NDArray[np.int32]
    weight: NDArray[np.float32]
    path: Path

    @classmethod
    def draw(cls, shape: LayerShape, tokens: int, kind: str, seed: int, path: Path) -> "Inputs":
        """Draw T tokens and their routes, and write them to `path`; the same seed gives the same bytes.

        Raises:
            ValueError: an unknown kind.
        """
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((tokens, shape.hidden), np.float32) * _channels(shape.hidden, kind, rng)
        routes = synthetic_routes(tokens, shape.experts, shape.top_k, alpha=shape.alpha, seed=seed)
        expert, weight = routes.expert.reshape(tokens, -1), routes.weight.reshape(tokens, -1)
        with path.open("wb") as file:
            for part, form in ((x, "<f4"), (expert, "<i4"), (weight, "<f4")):
                part.astype(form).tofile(file)
        return cls(x, expert, weight, path)


def _channels(hidden: int, kind: str, rng: np.random.Generator) -> NDArray[np.float32]:
    """(H,): the size of each channel."""
    if kind == "gaussian":
        return np.ones(hidden, np.float32)
    if kind == "lognormal":
        return np.exp(0.5 * rng.standard_normal(hidden)).astype(np.float32)
    if kind == "outliers":
        return np.where(np.arange(hidden) % 512 == 7, np.float32(30), np.float32(1))
    raise ValueError(f"unknown kind of activations {kind!r}: one of {', '.join(KINDS)}")
