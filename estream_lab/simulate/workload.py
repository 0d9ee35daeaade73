"""What a simulated request has to do: a model, a number of tokens, and how many of them visit each expert."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.routing import Routes, synthetic_routes
from estream_lab.simulate.models import ModelShape


@dataclass(frozen=True, eq=False)
class Workload:
    """A prompt's way through a model.

    Attributes:
        model: its sizes.
        tokens: T.
        loads: (layers, E) int64, routes of each expert in each sparse layer; neighbours share groups.
        origin: where the routes come from, for provenance.

    Raises:
        EStreamError: no token, or loads of other layers or experts than the model's.
    """

    model: ModelShape
    tokens: int
    loads: NDArray[np.int64]
    origin: str

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise EStreamError(f"a request of {self.tokens} tokens has nothing to do: give at least 1")
        wanted = (self.model.layers, self.model.experts)
        if self.loads.shape != wanted:
            raise EStreamError(
                f"these routes are of {self.loads.shape[0]} layers of {self.loads.shape[-1]} experts, and "
                f"{self.model.title} has {wanted[0]} sparse layers of {wanted[1]}: give routes of that model"
            )

    @classmethod
    def synthetic(cls, model: ModelShape, tokens: int, *, alpha: float | None = None, seed: int = 0) -> "Workload":
        """The loads of `drawn_routes`.

        Raises:
            EStreamError: as `drawn_routes`, or no token.
        """
        routes, origin = drawn_routes(model, tokens, alpha=alpha, seed=seed)
        loads = np.stack([of_layer.counts(model.experts) for of_layer in routes.values()])
        return cls(model, tokens, loads, origin)

    @classmethod
    def of_routes(cls, model: ModelShape, routes: Mapping[int, Routes], origin: str) -> "Workload":
        """Given routes, by layer, in the order of the layers; T is one more than the last token with a route.

        Raises:
            EStreamError: routes of other layers or experts than the model's, or none.
        """
        last = max((int(of_layer.token[-1]) for of_layer in routes.values() if len(of_layer)), default=-1)
        most = max((int(of_layer.expert.max()) for of_layer in routes.values() if len(of_layer)), default=0)
        experts = max(most + 1, model.experts)
        loads = [routes[layer].counts(experts) for layer in sorted(routes)]
        return cls(model, last + 1, np.array(loads, np.int64).reshape(len(loads), experts), origin)

    def in_order(self, orders: Sequence[NDArray[np.int32]]) -> "Workload":
        """The same for a store whose groups aren't by id: ``orders`` are its experts in file order, (E,) a layer."""
        return replace(self, loads=np.take_along_axis(self.loads, np.array(orders, np.int64), axis=1))

    def rows(self, group_size: int) -> NDArray[np.int64]:
        """Routes of each group: (layers, K), neighbours in a group, the last one perhaps smaller.

        Raises:
            EStreamError: a group of no or more experts than a layer has.
        """
        if not 1 <= group_size <= self.model.experts:
            raise EStreamError(
                f"{self.model.title} has {self.model.experts} experts a layer, which don't make groups of "
                f"{group_size}: choose 1 to {self.model.experts}"
            )
        starts = np.arange(0, self.model.experts, group_size)
        return np.asarray(np.add.reduceat(self.loads, starts, axis=1), np.int64)


def drawn_routes(
    model: ModelShape, tokens: int, *, alpha: float | None = None, seed: int = 0
) -> tuple[dict[int, Routes], str]:
    """Routes drawn at random, by layer, layer l with seed + l, and what they are, in words.

    Args:
        alpha: their skew; the model's by default.

    Raises:
        EStreamError: an alpha that isn't above 0, or a seed below 0.
    """
    skew = model.alpha if alpha is None else alpha
    if not (skew > 0 and np.isfinite(skew)) or seed < 0:
        raise EStreamError(f"synthetic routes need an alpha above 0 and a seed of 0 or more, not {skew} and {seed}")
    routes = {
        layer: synthetic_routes(tokens, model.experts, model.top_k, alpha=skew, seed=seed + layer)
        for layer in range(model.layers)
    }
    return routes, f"synthetic (alpha {skew:g}, seed {seed})"
