"""The compaction explorer: choose a route, and see its slot, its record, and where that reads and writes."""

import ipywidgets as widgets
import numpy as np
from numpy.typing import NDArray

from estream_lab.experts import Arena, RecordClass, compact
from estream_lab.experts.record_addresses import RecordAddresses
from estream_lab.routing import Routes
from estream_lab.trace import Provenance
from estream_lab.viz.explore.base import Explorer, Picture, named
from estream_lab.viz.figures.bound_route import PSI, RECORDS, BoundRoutes, bound_route_drawing
from estream_lab.viz.figures.theme import mebibytes

MOST_ROUTES = 64  # more are points too close to be clicked, and too many to follow the hand


class CompactionExplorer(Explorer):
    """How many tokens, which bank, the graph's route capacity C, and a route: by its slider, or by a click on it.

    Args:
        routes: of one layer; the first tokens of them are bound.
        placement: Φ, int32 (E,): slots of `arena`.
        arena, record: what the addresses are computed from, the class of its records.
        provenance: of the routes.
    """

    def __init__(
        self, routes: Routes, placement: NDArray[np.int32], arena: Arena, record: RecordClass, provenance: Provenance
    ) -> None:
        self.routes, self.placement, self.provenance = routes, np.array(placement), provenance
        self.arena, self.record = arena, record
        following = routes.token[MOST_ROUTES] if len(routes) > MOST_ROUTES else routes.token[-1] + 1
        most = max(1, int(following))  # whole tokens
        tokens = named(widgets.IntSlider(min(16, most), 1, most), "tokens T")
        start = self.bound(tokens.value, 0, 1).binding.route[:1]
        # A slider whose end moves is built anew in the page, with every move of another: this one's end stays.
        route = named(widgets.IntSlider(int(start.sum()), 0, self._count(most) - 1), "route i")
        super().__init__(
            {
                "tokens": tokens,
                "bank": named(widgets.IntSlider(0, 0, arena.banks - 1), "bank"),
                "capacity": named(widgets.IntSlider(8, 1, 64), "capacity C"),
                "route": route,
            }
        )
        for control in (tokens, route):
            control.observe(self._within, names="value")
        self.live.on_click(self._clicked)

    def picture(self, *, tokens: int, bank: int, capacity: int, route: int) -> Picture:
        """The chosen route among those of the first tokens."""
        bound = self.bound(tokens, bank, capacity)
        chosen = min(route, len(bound.routes) - 1)
        settings = f"T={tokens} bank={bank} C={capacity} route={chosen}"
        access = bound.access(bound.record_of(chosen))
        if access is not None:
            settings += f" · gate {access.gate:,} up {access.up:,} down {access.down:,}"
        return Picture(bound_route_drawing(bound, chosen, self.provenance), _told(bound, chosen), settings)

    def bound(self, tokens: int, bank: int, capacity: int) -> BoundRoutes:
        """The routes of the first tokens, bound to one bank."""
        count, size = self._count(tokens), self.arena.group_size
        routes = Routes(self.routes.token[:count], self.routes.expert[:count], self.routes.weight[:count])
        binding = compact(routes, self.placement, bank * size, size)
        row_bytes = 4 * self.record.shape.hidden  # float32
        addresses = RecordAddresses.of(binding, self.arena.addresses(binding.slot, self.record), row_bytes)
        return BoundRoutes(
            routes, self.placement, binding, addresses, self.record, self.arena.slots, self.arena.stride, row_bytes,
            capacity,
        )  # fmt: skip

    def _count(self, tokens: int) -> int:
        """Routes of the first tokens."""
        return int(np.searchsorted(self.routes.token, tokens))

    def _within(self, _: object) -> None:
        """There is no route beyond the last one of the tokens that are there."""
        last, route = self._count(self.controls["tokens"].value) - 1, self.controls["route"]
        if route.value > last:
            route.value = last

    def _clicked(self, trace: int, point: int) -> None:
        """A route's point in ψ stands at its number; one in Π has it as its height."""
        if trace in (PSI, RECORDS):
            routes = self.live.drawing["data"][trace]["x" if trace == PSI else "y"]
            if point < len(routes):  # the page may still show more of them
                self.controls["route"].value = int(routes[point])


def _told(bound: BoundRoutes, route: int) -> str:
    """The chosen route in words."""
    token, expert, weight = (
        int(bound.routes.token[route]),
        int(bound.routes.expert[route]),
        bound.routes.weight[route],
    )
    slot, record = int(bound.placement[expert]), bound.record_of(route)
    head = f"<b>route {route}</b>: token {token} → expert {expert}, α = {weight:.3f}; "
    if slot < 0:
        return f"{head}ψ: none. Its expert is not resident: the route waits until its group has been read."
    if record is None:
        group = slot // len(bound.binding.slot)
        return f"{head}ψ = slot {slot}. The slot lies in bank {group}: the invocation of that bank binds it."
    at, part, parts = bound.addresses, record // bound.capacity, -(-len(bound.binding) // bound.capacity)
    return (
        f"{head}ψ = slot {slot}, record {record} of {len(bound.binding)}, invocation {part + 1} of {parts}.<br>"
        f"Reads X at p_X + {token} · {bound.row_bytes} = {int(at.x[record]):,}; "
        f"gate {int(at.gate[record]):,}, up {int(at.up[record]):,}, down {int(at.down[record]):,} "
        f"(slot {slot} · {bound.stride:,} and on, arena of {mebibytes(bound.slots * bound.stride)}); "
        f"adds to Y at p_Y + {token} · {bound.row_bytes} = {int(at.y[record]):,}."
    )
