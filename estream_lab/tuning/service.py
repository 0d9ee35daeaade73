"""X for route counts that nobody measured: a model of execution times, fitted to a profile's samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError

BLOCKS = (1, 8, 32)
"""Routes of an expert that may be computed together; the last block of an expert is paid in full."""


@dataclass(frozen=True)
class ServiceModel:
    """X = fixed + expert · (experts with routes) + block · (blocks of their routes), in ns; 0 without routes.

    Attributes:
        block: routes that are computed together.
        fixed_ns, expert_ns, block_ns: what a group, each of its experts with routes, and each block takes; 0 or more.
        median_error, worst_error: |predicted / measured - 1| of each layer by a fit to the others.
        samples: that it was fitted to.
    """

    block: int
    fixed_ns: float
    expert_ns: float
    block_ns: float
    median_error: float
    worst_error: float
    samples: int

    def predict(self, routes: NDArray[np.int64]) -> NDArray[np.float64]:
        """X in ns, (K,), of groups whose experts have ``routes`` (K, G)."""
        parts = np.array([self.fixed_ns, self.expert_ns, self.block_ns])
        times: NDArray[np.float64] = _features(routes, self.block) @ parts  # (K, 3) @ (3,)
        return times


def fit(samples: Sequence[tuple[int, NDArray[np.int64], float]]) -> ServiceModel:
    """The model, of those that the blocks give, that predicts layers best which its fit left out.

    Args:
        samples: the layer, the routes of the group's experts (G,), of any G, and the measured X in ns, more than 0.

    Raises:
        EStreamError: no samples.
    """
    if not samples:
        raise EStreamError("no group was executed, so there is nothing to fit a service model to: give a longer prompt")
    layers = np.array([layer for layer, _, _ in samples])
    times = np.array([time for _, _, time in samples], np.float64)
    models = []
    for block in BLOCKS:
        features = np.concatenate([_features(routes[None], block) for _, routes, _ in samples])  # (samples, 3)
        errors = _held_out(features, times, layers)
        fixed, expert, each = map(float, _solve(features, times))
        median, worst = float(np.median(errors)), float(errors.max())
        models.append(ServiceModel(block, fixed, expert, each, median, worst, len(samples)))
    return min(models, key=lambda model: (model.median_error, model.block))


def _features(routes: NDArray[np.int64], block: int) -> NDArray[np.float64]:
    """(K, 3): whether there are routes, experts with routes, blocks of routes."""
    experts = (routes > 0).sum(axis=1)
    return np.stack([experts > 0, experts, (-(-routes // block)).sum(axis=1)], axis=1).astype(np.float64)


def _held_out(
    features: NDArray[np.float64], times: NDArray[np.float64], layers: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Relative error of each sample by a fit to the other layers; of the fit itself where there is one layer."""
    errors = np.empty(len(times))
    for layer in np.unique(layers):
        held = layers == layer
        seen = ~held if (~held).any() else held
        errors[held] = np.abs(features[held] @ _solve(features[seen], times[seen]) / times[held] - 1)
    return errors


def _solve(features: NDArray[np.float64], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """The parts, 0 or more, of least squared relative error: the best of what each choice of parts gives."""
    rows, ones = features / times[:, None], np.ones(len(times))
    best, least = np.zeros(features.shape[1]), np.inf
    for count in range(1, features.shape[1] + 1):
        for chosen in combinations(range(features.shape[1]), count):
            parts = np.zeros(features.shape[1])
            parts[list(chosen)] = np.linalg.lstsq(rows[:, chosen], ones, rcond=None)[0]
            loss = float(((rows @ parts - ones) ** 2).sum())
            if (parts >= 0).all() and loss < least:
                best, least = parts, loss
    return best
