"""Capacity tiers, after NPUMoE (arXiv 2604.18788): how many rows each expert has, and which routes find one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.routing import Routes


@dataclass(frozen=True, eq=False)
class TierGroup:
    """Experts of one tier that are fused into one static graph.

    Attributes:
        experts: (g,) int64, most popular first. tier: rows of each.
    """

    experts: NDArray[np.int64]
    tier: int

    @property
    def rows(self) -> int:
        """Rows that the graph computes: g · c."""
        return len(self.experts) * self.tier


def tiers_of(calibration: NDArray[np.int64], capacities: tuple[int, ...], quantile: float) -> NDArray[np.int64]:
    """Each expert's tier: the smallest capacity that isn't below that quantile of its load, else the largest.

    Args:
        calibration: (N, E), loads of N requests.
        capacities: rising.
        quantile: p, 0 to 1; where it falls between two requests, the higher load counts.

    Returns:
        (E,) int64.
    """
    loads = np.quantile(calibration, quantile, axis=0, method="higher")  # (E,)
    place = np.searchsorted(capacities, loads)
    return np.asarray(capacities, np.int64)[np.minimum(place, len(capacities) - 1)]


def kept_routes(routes: Routes, tiers: NDArray[np.int64], norms: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which routes find a row: of each expert the first ``tiers`` by |α| · ‖x‖, ties in route order.

    Args:
        routes: of one layer. tiers: (E,). norms: (T,).

    Returns:
        bool (R,).
    """
    order = np.lexsort((-saliency(routes, norms), routes.expert))  # stable: expert by expert, most salient first
    counts = routes.counts(len(tiers))
    starts = np.repeat(counts.cumsum() - counts, counts)  # (R,): where the expert's own routes begin
    kept = np.zeros(len(routes), bool)
    kept[order] = np.arange(len(routes)) - starts < np.repeat(tiers, counts)
    return kept


def saliency(routes: Routes, norms: NDArray[np.float64]) -> NDArray[np.float64]:
    """|α| · ‖x‖ of each route: (R,) float64. ``norms`` is (T,)."""
    return np.abs(routes.weight.astype(np.float64)) * norms[routes.token]


def groups_of(tiers: NDArray[np.int64], popularity: NDArray[np.float64], size: int) -> list[TierGroup]:
    """Experts of the same tier by falling popularity, ties by id, in graphs of ``size``; a tier's last may be smaller.

    Args:
        tiers, popularity: (E,).
    """
    order = np.lexsort((-popularity, -tiers))
    groups: list[TierGroup] = []
    for tier in np.unique(tiers)[::-1]:
        members = order[tiers[order] == tier]
        groups += [TierGroup(members[at : at + size], int(tier)) for at in range(0, len(members), size)]
    return groups
