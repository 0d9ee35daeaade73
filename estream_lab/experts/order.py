"""Expert order pi: in which order a layer's experts lie in the store, hence which of them share a group (section 4).

An order is any callable that takes a layer's routes and E and returns the experts in file order. Shipped: by id, by
popularity, by co-activation. All are integer arithmetic with ties by id: the same routes give the same order anywhere.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.routing import Routes

Order = Callable[[Routes, int], NDArray[np.int32]]
"""(routes of one layer, E) -> int32 (E,): the expert of each record in file order, a permutation of 0 .. E - 1."""


def by_id(routes: Routes, experts: int) -> NDArray[np.int32]:
    """0, 1, ..., E - 1, whatever the routes: int32 (E,)."""
    return np.arange(experts, dtype=np.int32)


def by_popularity(routes: Routes, experts: int) -> NDArray[np.int32]:
    """The most-routed experts first, ties by id: int32 (E,).

    Early reads, which take the first groups before routes are known, are then the likeliest to be needed, and the
    experts that a short prompt does without share the last groups.
    """
    return np.argsort(-routes.counts(experts), kind="stable").astype(np.int32)


@dataclass(frozen=True)
class CoActivation:
    """Experts that are chosen together become neighbours, so that a token or a short prompt touches fewer groups.

    The experts are cut in two so that as little co-activation as possible crosses the cut, each part is cut again, and
    so on: groups of 2, 4, 8, ... experts are all parts of one order. A cut starts with the more popular experts on one
    side and is improved by passes of pairwise swaps (B. W. Kernighan and S. Lin, "An efficient heuristic procedure for
    partitioning graphs", Bell System Technical Journal 49, 1970). Of two equal parts the more popular one comes first,
    for the sake of early reads.

    Attributes:
        window: how many consecutive tokens count as together: 1 for a single token's experts, a prompt's length for
            prompts as short as that.
    """

    window: int = 1

    def __call__(self, routes: Routes, experts: int) -> NDArray[np.int32]:
        """See `Order`."""
        return _nested(by_popularity(routes, experts), together(routes, experts, self.window), routes.counts(experts))


by_co_activation = CoActivation()

ORDERS: dict[str, Order] = {"id": by_id, "popularity": by_popularity, "co-activation": by_co_activation}


def together(routes: Routes, experts: int, window: int = 1) -> NDArray[np.int64]:
    """How often two experts are chosen by the same ``window`` consecutive tokens: int64 (E, E), the diagonal is 0."""
    present = _present(routes, experts, window).astype(np.float64)  # (N, E); BLAS, exact up to 2^53
    counts = (present.T @ present).astype(np.int64)  # (E, E)
    np.fill_diagonal(counts, 0)
    return counts


def groups_touched(routes: Routes, order: NDArray[np.int32], group_size: int, window: int = 1) -> float:
    """How many groups of the order each run of ``window`` consecutive tokens touches, in the mean.

    Args:
        routes: of one layer. order: int32 (E,), experts in file order.
        group_size: G. window: tokens of a run.
    """
    present = _present(routes, len(order), window)[:, order]  # (N, E) in file order
    starts = np.arange(0, len(order), group_size)
    return float(np.logical_or.reduceat(present, starts, axis=1).sum(axis=1).mean())


def _present(routes: Routes, experts: int, window: int) -> NDArray[np.bool_]:
    """Which experts each run of ``window`` tokens visits: (N, E)."""
    runs = int(routes.token.max(initial=-1)) // window + 1
    present = np.zeros((runs, experts), np.bool_)
    present[routes.token // window, routes.expert] = True
    return present


def _nested(items: NDArray[np.int32], weights: NDArray[np.int64], loads: NDArray[np.int64]) -> NDArray[np.int32]:
    """``items``, most popular first, cut again and again; the first part is as long as the largest power of two that
    leaves something for the second.

    Args:
        items: int32 (n,), experts. weights: int64 (E, E), symmetric. loads: int64 (E,).
    """
    if len(items) < 3:
        return items
    first, second = _cut(items, 1 << (len(items) - 1).bit_length() - 1, weights)
    if len(first) == len(second) and loads[second].sum() > loads[first].sum():
        first, second = second, first
    return np.concatenate([_nested(part, weights, loads) for part in (first, second)])


def _cut(
    items: NDArray[np.int32], size: int, weights: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """``items`` in parts of ``size`` and the rest, after Kernighan-Lin passes until none lightens the cut."""
    inner = weights[np.ix_(items, items)]  # (n, n)
    side = np.where(np.arange(len(items)) < size, 1, -1).astype(np.int64)
    while (better := _pass(inner, side)) is not None:
        side = better
    return items[side > 0], items[side < 0]


def _pass(weights: NDArray[np.int64], side: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Swap the best pair that was not swapped yet, however bad, until none is left; the best state met on the way.

    Args:
        weights: int64 (n, n). side: +1 or -1 (n,).

    Returns:
        Sides with a lighter cut, or None where no state was better than the first.
    """
    trial, free = side.copy(), np.ones(len(side), np.bool_)
    best, gain, most = None, 0, 0
    for _ in range(min((side > 0).sum(), (side < 0).sum())):
        outward = -trial * (weights @ trial)  # (n,): weight to the other side less weight to one's own
        one, other = np.flatnonzero(free & (trial > 0)), np.flatnonzero(free & (trial < 0))
        gains = outward[one][:, None] + outward[other] - 2 * weights[np.ix_(one, other)]
        i, j = divmod(int(gains.argmax()), len(other))
        trial[one[i]], trial[other[j]] = -1, 1
        free[[one[i], other[j]]] = False
        gain += int(gains[i, j])
        if gain > most:
            best, most = trial.copy(), gain
    return best


@dataclass(frozen=True)
class ExpertOrder:
    """An order of every layer's experts, and where it comes from: what packing takes and the manifest keeps.

    Attributes:
        name: of the order; layers: int32 (E,) each, the experts in file order.
        source: what the routes were, in words; tokens: how many tokens they cover.
        routes_checksum: xxh3-64 of the routes' tokens and experts, in hexadecimal.
    """

    name: str
    layers: tuple[NDArray[np.int32], ...] = field(repr=False)
    source: str
    tokens: int
    routes_checksum: str

    @classmethod
    def of(
        cls, order: str | Order, routes: Mapping[int, Routes], layers: int, experts: int, top_k: int, source: str
    ) -> "ExpertOrder":
        """Order the experts of each layer by its routes.

        Args:
            order: a name of `ORDERS`, or a callable of one's own.
            routes: by layer; layers, experts, top_k: the model's L, E and k.
            source: what the routes are, for the manifest and for errors.

        Raises:
            EStreamError: no such order, routes of another model, or an order that is no permutation.
        """
        name, function = _named(order)
        _check_routes(routes, layers, experts, top_k, source)
        found = tuple(_permutation(function(routes[layer], experts), experts, name) for layer in range(layers))
        tokens = max(int(r.token[-1]) + 1 for r in routes.values())
        return cls(name, found, source, tokens, _checksum(routes))

    def to_json(self) -> dict[str, Any]:
        """The origin as the manifest keeps it; the order itself stands with each layer's records there."""
        table = np.concatenate(self.layers).astype("<i4")
        return {
            "name": self.name,
            "routes": self.source,
            "tokens": self.tokens,
            "routes_checksum": self.routes_checksum,
            "checksum": xxhash.xxh3_64_hexdigest(table.tobytes()),
        }


def file_orders(order: ExpertOrder | None, layers: int, experts: int) -> list[list[int]]:
    """The experts of each layer in file order: those of ``order``, by id where it is None.

    Raises:
        EStreamError: an order of a model of another size.
    """
    if order is None:
        return [list(range(experts))] * layers
    if [len(layer) for layer in order.layers] != [experts] * layers:
        raise EStreamError(
            f"the order '{order.name}' is not one of {layers} layers of {experts} experts: make it from routes of this "
            "model"
        )
    return [layer.tolist() for layer in order.layers]


def _named(order: str | Order) -> tuple[str, Order]:
    if not isinstance(order, str):
        own = str(getattr(order, "__name__", type(order).__name__))
        return next((name for name, known in ORDERS.items() if known == order), own), order
    try:
        return order, ORDERS[order]
    except KeyError:
        raise EStreamError(f"unknown expert order '{order}': choose one of {', '.join(ORDERS)}") from None


def _check_routes(routes: Mapping[int, Routes], layers: int, experts: int, top_k: int, source: str) -> None:
    remedy = "give the routes of this model, as `estream routes` writes them"
    if missing := [layer for layer in range(layers) if not len(routes.get(layer, ()))]:
        raise EStreamError(f"{source} has no routes for layer {missing[0]} of the model's {layers}: {remedy}")
    if beyond := sorted(set(routes) - set(range(layers))):
        raise EStreamError(f"{source} has routes for layer {beyond[0]} of a model of {layers} layers: {remedy}")
    for layer, found in routes.items():
        if (largest := int(found.expert.max())) >= experts:
            raise EStreamError(f"{source} names expert {largest} in layer {layer} of {experts} experts: {remedy}")
        if (most := int(np.bincount(found.token).max())) != top_k:
            raise EStreamError(f"{source} sends a token to {most} experts where the model has {top_k}: {remedy}")


def _permutation(found: Any, experts: int, name: str) -> NDArray[np.int32]:
    order = np.asarray(found)
    if order.shape != (experts,) or not np.array_equal(np.sort(order), np.arange(experts)):
        raise EStreamError(f"the order '{name}' gives no permutation of {experts} experts: each must appear once")
    order = order.astype(np.int32)
    order.flags.writeable = False
    return order


def _checksum(routes: Mapping[int, Routes]) -> str:
    """Weights have no part in it: they move no expert, and a route file may lack them."""
    digest = xxhash.xxh3_64()
    for layer in sorted(routes):
        found = routes[layer]
        digest.update(np.array([layer, len(found)], "<i8").tobytes())
        digest.update(found.token.astype("<i4").tobytes() + found.expert.astype("<i4").tobytes())
    return digest.hexdigest()
