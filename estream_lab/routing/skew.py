"""How unevenly routes fall on experts."""

from dataclasses import asdict, dataclass

import numpy as np

from estream_lab.routing.routes import Routes


@dataclass(frozen=True)
class Skew:
    """A summary of one layer's routes.

    Attributes:
        routes: R.
        active_experts: experts with at least one route.
        effective_experts: exp of the entropy of the experts' shares: E if even, 1 if all routes visit one expert.
        busiest_share: share of all routes that the busiest expert gets, 0..1.
        threshold: routes from which an expert counts as well filled.
        share_in_filled: share of all routes that fall on well filled experts, 0..1.
    """

    routes: int
    active_experts: int
    effective_experts: float
    busiest_share: float
    threshold: int
    share_in_filled: float

    def to_json(self) -> dict[str, float]:
        """Every field, ready for json.dump."""
        return asdict(self)


def skew(routes: Routes, experts: int, threshold: int = 64) -> Skew:
    """Summarise the skew of one layer's routes over `experts` experts; all shares are 0 without routes."""
    total = len(routes)
    if not total:
        return Skew(0, 0, 0.0, 0.0, threshold, 0.0)
    visited, counts = np.unique(routes.expert, return_counts=True)  # a file's expert ids may be of any size
    if visited[-1] >= experts:
        raise ValueError(f"a route names expert {visited[-1]} of {experts}")
    shares = counts / total
    return Skew(
        routes=total,
        active_experts=len(shares),
        effective_experts=float(np.exp(-(shares * np.log(shares)).sum())),
        busiest_share=float(shares.max()),
        threshold=threshold,
        share_in_filled=float(counts[counts >= threshold].sum() / total),
    )
