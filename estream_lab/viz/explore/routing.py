"""The routing explorer: synthetic routes of any skew, and what fixed shapes would cost on them."""

from functools import lru_cache

import ipywidgets as widgets
import numpy as np
from numpy.typing import NDArray

from estream_lab.routing import skew, synthetic_routes
from estream_lab.routing.padding import row_costs
from estream_lab.routing.skew import Skew
from estream_lab.trace import Provenance
from estream_lab.viz.explore.base import Explorer, Picture, named, stepped
from estream_lab.viz.figures.padding import capacity_drawing

ALPHAS = (0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 15.0, 30.0, 100.0)
TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
EXPERTS = (4, 8, 16, 32, 64, 128)
FACTORS = (0.5, 0.75, 1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)


class RoutingExplorer(Explorer):
    """Skew α, tokens T, experts E, choices k and a capacity factor: loads, padding and dropped routes.

    The routes are synthetic (`routing.synthetic_routes`), always of the same seed, so that a slider changes nothing
    but what it says. More choices than experts count as all of them.
    """

    def __init__(
        self, *, alpha: float = 3.0, tokens: int = 512, experts: int = 64, top_k: int = 8, factor: float = 1.25,
        seed: int = 0,
    ) -> None:  # fmt: skip
        self.seed = seed
        self.provenance: Provenance = {"kind": "synthetic", "note": "Dirichlet popularity, Gumbel top-k", "seed": seed}
        super().__init__(
            {
                "alpha": stepped("skew α", ALPHAS, alpha),
                "tokens": stepped("tokens T", TOKENS, tokens),
                "experts": stepped("experts E", EXPERTS, experts),
                "top_k": named(widgets.IntSlider(top_k, 1, 16), "choices k"),
                "factor": stepped("capacity ×", FACTORS, factor),
            }
        )

    def picture(self, *, alpha: float, tokens: int, experts: int, top_k: int, factor: float) -> Picture:
        """Loads and rows under these values."""
        chosen = min(top_k, experts)
        counts, found = layer(alpha, tokens, experts, chosen, self.seed)
        cost = row_costs(counts, tokens, factor)[f"capacity factor {factor:g}"]
        text = (
            f"R = {len_text(tokens, chosen)} routes reach {found.active_experts} of {experts} experts "
            f"({found.effective_experts:.1f} effective, busiest {found.busiest_share:.1%}); "
            f"at {factor:g} × R/E rows each: {cost.padding} rows of padding, {cost.dropped} routes dropped "
            f"({cost.dropped / cost.routes:.1%})"
        )
        settings = f"α={alpha:g} T={tokens} E={experts} k={chosen} · capacity factor {factor:g}"
        return Picture(capacity_drawing(counts, tokens, factor, self.provenance), text, settings)


@lru_cache(maxsize=256)
def layer(alpha: float, tokens: int, experts: int, top_k: int, seed: int) -> tuple[NDArray[np.int64], Skew]:
    """Loads int64 (E,) and skew of one synthetic layer; kept, since a capacity factor changes neither."""
    routes = synthetic_routes(tokens, experts, top_k, alpha=alpha, seed=seed)
    counts = routes.counts(experts)
    counts.flags.writeable = False
    return counts, skew(routes, experts)


def len_text(tokens: int, top_k: int) -> str:
    """T · k as an equation."""
    return f"{tokens} · {top_k} = {tokens * top_k}"
