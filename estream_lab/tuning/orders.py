"""What a layer's experts in another order would give on a simulated device, and how far all orders are from the bound.

A store keeps its experts in one order, so all that an order can know is what routes of earlier prompts tell. Two more
are forecasts that no store has: each layer's groups in the best order for the very request that is run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.routing import Routes
from estream_lab.simulate.device import Device
from estream_lab.simulate.models import ModelShape
from estream_lab.simulate.soc import Settings, read_ns, run_ns, service_times_of, simulate
from estream_lab.simulate.workload import Workload
from estream_lab.tuning.configure import select
from estream_lab.tuning.devices import device_grid
from estream_lab.tuning.flow_shop import distances, johnson_order
from estream_lab.tuning.grids import configurations
from estream_lab.tuning.models import SHARED
from estream_lab.tuning.regret import budgets
from estream_lab.tuning.simulated import simulated_profile


@dataclass(frozen=True)
class Orders:
    """One configuration with its experts in several orders.

    Attributes:
        model: its title. routes: what was run.
        budgets: "low", "high" or both, that the configuration was chosen for.
        settings: G, B and Q, by the finer model for experts by id.
        seconds: of the simulated request, by order: by id; by popularity in other prompts; then the groups by id in
            the order of descending work, and in Johnson's, as a perfect forecast would have them.
        bound_seconds: no order of the groups by id and no number of banks takes less, at the cost of banks that these
            settings' B has and the bandwidth that their Q has: fewer banks may cost less, a deeper queue may read
            faster. Another order of experts makes other groups, whose bound may differ.
    """

    model: str
    routes: str
    budgets: tuple[str, ...]
    settings: Settings
    seconds: dict[str, float]
    bound_seconds: float

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def halves(routes: Mapping[int, Routes]) -> tuple[dict[int, Routes], dict[int, Routes]]:
    """Routes of the first half of a prompt's tokens, and of the others, counted from 0 again.

    Raises:
        EStreamError: routes of fewer than two tokens.
    """
    last = max((int(of_layer.token.max(initial=-1)) for of_layer in routes.values()), default=-1)
    if last < 1:
        raise EStreamError("routes of one token don't make two halves: give those of a longer prompt")
    middle = (last + 1) // 2
    first = {layer: _cut(each, each.token < middle, 0) for layer, each in routes.items()}
    return first, {layer: _cut(each, each.token >= middle, middle) for layer, each in routes.items()}


def orders_of(device: Device, model: ModelShape, routes: Mapping[int, Routes], origin: str) -> tuple[Orders, ...]:
    """Run the second half of ``routes`` with experts in every order, as configured for the low and the high budget.

    Popularity is counted over the first half.

    Args:
        routes: by layer. origin: what they are.

    Raises:
        EStreamError: as `halves`, or routes of other layers or experts than the model's.
    """
    before, asked = (Workload.of_routes(model, half, origin) for half in halves(routes))
    profile = simulated_profile(device, asked)
    grid = configurations(model.experts)
    known = {each.name: each for each in budgets(grid, profile.slot_bytes, profile.other_bytes)}
    names: dict[Settings, tuple[str, ...]] = {}
    for name in ("low", "high"):
        chosen = select(profile, known[name].bytes, SHARED).chosen
        settings = Settings(chosen.group_size, chosen.banks, chosen.queue_depth)
        names[settings] = (*names.get(settings, ()), name)
    found = []
    for settings, chosen_for in names.items():
        ordered = {
            "id": asked,
            "popularity": asked.in_order(list(np.argsort(-before.loads, axis=1, kind="stable").astype(np.int32))),
            "descending work": asked.in_order(_by_groups(asked, settings, _descending(asked, settings))),
            "johnson": asked.in_order(_by_groups(asked, settings, _johnson(device, asked, settings))),
        }
        seconds = {order: simulate(device, each, settings).seconds for order, each in ordered.items()}
        found.append(Orders(model.title, origin, chosen_for, settings, seconds, _bound(device, asked, settings)))
    return tuple(found)


def _cut(routes: Routes, chosen: NDArray[np.bool_], first: int) -> Routes:
    return Routes(routes.token[chosen] - first, routes.expert[chosen], routes.weight[chosen])


def _descending(asked: Workload, settings: Settings) -> list[NDArray[np.int64]]:
    """Of each layer its groups, most routes first."""
    return [np.argsort(-rows, kind="stable") for rows in asked.rows(settings.group_size)]


def _johnson(device: Device, asked: Workload, settings: Settings) -> list[NDArray[np.int64]]:
    """Of each layer its groups in Johnson's order, those without routes taken for executions of no time."""
    experts, size, depth = asked.model.experts, settings.group_size, settings.queue_depth
    counts = [min(size, experts - first) for first in range(0, experts, size)]
    reads = np.array([read_ns(device, count * asked.model.expert_bytes, depth) / depth for count in counts])
    return [
        johnson_order(reads, np.array([float(run_ns(device, asked, int(count))) if count else 0.0 for count in rows]))
        for rows in asked.rows(size)
    ]


def _by_groups(asked: Workload, settings: Settings, groups: list[NDArray[np.int64]]) -> list[NDArray[np.int32]]:
    """Experts of each layer by their groups in these orders; a last group that isn't full stays last."""
    size, whole = settings.group_size, asked.model.experts // settings.group_size
    rest = np.arange(whole * size, asked.model.experts)
    return [
        np.concatenate(
            [*(np.arange(group * size, (group + 1) * size) for group in order if group < whole), rest]
        ).astype(np.int32)
        for order in groups
    ]


def _bound(device: Device, asked: Workload, settings: Settings) -> float:
    """Seconds of a request whose layers take what `flow_shop.distances` says that they take at least, with what ``B``
    of the settings costs outside of them."""
    times = service_times_of(device, asked, settings.group_size, settings.banks)
    outside = times.lead_ns + times.tail_ns + sum(layer.rest_ns for layer in times.passes)
    grid = device_grid(device, asked, settings.group_size)
    return (distances(grid, settings.banks, settings.queue_depth).bound_ns + outside) / 1e9
