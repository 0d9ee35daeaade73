"""A layer of experts in float64, for a sample of tokens: what every row's output is held to."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.bench.inputs import Inputs
from estream_lab.bench.weights import Dequantised

SAMPLE = 24
"""Tokens that are computed; a token's output depends on no other token."""


def sampled(tokens: int) -> NDArray[np.int64]:
    """Which tokens are computed: evenly spread, first and last included."""
    return np.unique(np.linspace(0, tokens - 1, min(SAMPLE, tokens)).round().astype(np.int64))


def reference(inputs: Inputs, weights: Dequantised, distinct: int) -> NDArray[np.float64]:
    """y = sum of a * Wd (silu(Wg x) * (Wu x)) over a token's routes, in float64.

    Args:
        inputs: of the call.
        weights: what the row computes with; expert e has those of e % distinct.
        distinct: experts that differ.

    Returns:
        (S, H) float64, of the tokens `sampled`.
    """
    rows = sampled(len(inputs.x))
    x = inputs.x[rows].astype(np.float64)  # (S, H)
    expert, weight = inputs.expert[rows] % distinct, inputs.weight[rows].astype(np.float64)  # (S, k), (S, k)
    y = np.zeros_like(x)
    for e in range(distinct):
        token, choice = np.nonzero(expert == e)  # routes of this expert
        if not len(token):
            continue
        gate, up = (x[token] @ weights(e, projection).astype(np.float64).T for projection in (0, 1))  # (n, F)
        act = gate / (1 + np.exp(-gate)) * up
        np.add.at(y, token, (act @ weights(e, 2).astype(np.float64).T) * weight[token, choice, None])
    return y


@dataclass(frozen=True)
class Error:
    """Relative L2 errors of a row's output against `reference`.

    Attributes:
        whole: of all sampled tokens together.
        token: the largest of a single one, in parts of that token's own output.
    """

    whole: float
    token: float


def relative_error(y: NDArray[np.float32], exact: NDArray[np.float64]) -> Error:
    """Of a row's whole output (T, H); infinite where any output isn't finite."""
    if not np.isfinite(y).all():
        return Error(float("inf"), float("inf"))
    off = y[sampled(len(y))] - exact  # (S, H)
    tokens = np.linalg.norm(off, axis=1) / np.linalg.norm(exact, axis=1)
    return Error(float(np.linalg.norm(off) / np.linalg.norm(exact)), float(tokens.max()))
