"""One route on its way: its slot, its record, and where that reads and writes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from estream_lab.experts.binding import Binding
from estream_lab.experts.record_addresses import RecordAddresses
from estream_lab.experts.shape import RecordClass
from estream_lab.routing import Routes
from estream_lab.trace import Provenance
from estream_lab.viz.figures.compaction import borders, slot_colours, span
from estream_lab.viz.figures.memory_strips import WRITE, Access, Memory, memory_strips, strip_labels
from estream_lab.viz.figures.theme import CLEAR, GREY, dressing, key, provenance_line

PSI, RECORDS = 0, 1
"""The traces whose points stand for routes: a click on one chooses the route."""

MOST_LABELS = 4
"""Numbers at an axis of slots: each costs a millisecond with every move of a slider."""


@dataclass(frozen=True)
class BoundRoutes:
    """The routes of a layer, and the binding of one bank with its addresses.

    Attributes:
        routes: R of them. placement: Φ, int32 (E,). binding: of one bank.
        addresses: of the binding's records. record: the class of the arena's records.
        slots: P, of the arena. stride: bytes of a slot. row_bytes: S_X = S_Y.
        capacity: C, routes of one invocation.
    """

    routes: Routes
    placement: NDArray[np.int32]
    binding: Binding
    addresses: RecordAddresses
    record: RecordClass
    slots: int
    stride: int
    row_bytes: int
    capacity: int

    @property
    def tokens(self) -> int:
        """T, source rows."""
        return int(self.routes.token[-1]) + 1

    def record_of(self, route: int) -> int | None:
        """The place of a route's record in Π; None where the bank does not hold its expert."""
        found = np.flatnonzero(self.binding.route == route)
        return int(found[0]) if len(found) else None

    def access(self, record: int | None) -> Access | None:
        """What a record reads and writes."""
        if record is None:
            return None
        at = self.addresses
        return Access(*(int(column[record]) for column in (at.x, at.gate, at.up, at.down, at.y)))

    @property
    def memory(self) -> Memory:
        """The sizes of X, the arena and Y."""
        parts = (self.record.gate_bytes, self.record.up_bytes, self.record.down_bytes)
        return Memory(self.tokens, self.row_bytes, self.slots, self.stride, parts)


def bound_route(bound: BoundRoutes, route: int, provenance: Provenance) -> go.Figure:
    """`bound_route_drawing` as a figure."""
    return go.Figure(bound_route_drawing(bound, route, provenance))


def bound_route_drawing(bound: BoundRoutes, route: int, provenance: Provenance) -> dict[str, Any]:
    """Three panels: ψ of every route, Π with the borders of slots and invocations, and X, arena and Y as memory.

    The chosen route is ringed in the first two; in memory, what its record reads and writes is filled in. Traces are
    the same whatever is chosen, empty where there is nothing to show.
    """
    routes, binding, record = bound.routes, bound.binding, bound.record_of(route)
    psi = bound.placement[routes.expert]  # (R,)
    slots = bound.addresses.slot  # (n,)
    size = 10 if len(routes) <= 64 else 7
    cuts = np.arange(bound.capacity, len(binding), bound.capacity)
    chosen, access = ([] if record is None else [record]), bound.access(record)
    colours = slot_colours(psi, binding)
    traces: list[dict[str, Any]] = [
        _points(np.arange(len(routes)), psi, colours, size, 1)
        | {
            "customdata": np.stack([routes.token, routes.expert], axis=1),
            "hovertemplate": "route %{x}: token %{customdata[0]}, expert %{customdata[1]}, slot %{y}<extra></extra>",
        },
        _points(np.arange(len(binding)), binding.route, slot_colours(slots, binding), size, 2)
        | {"customdata": slots, "hovertemplate": "record %{x}: slot %{customdata}, route %{y}<extra></extra>"},
        _rings([route], [int(psi[route])], size, 1),
        _rings(chosen, [route] * len(chosen), size, 2),
        {"type": "scatter", **borders(binding.offsets - 0.5, -1, len(routes)), **_axes(2)},
        {"type": "scatter", **borders(cuts - 0.5, -1, len(routes), WRITE, "longdash"), **_axes(2)},
        *memory_strips(bound.memory, access, colours[route], _axes(3)),
    ]
    return {"data": traces, "layout": _layout(bound, access, provenance)}


def _layout(bound: BoundRoutes, access: Access | None, provenance: Provenance) -> dict[str, Any]:
    routes, last = len(bound.routes), bound.slots - 1
    numbers = range(0, bound.slots, -(-bound.slots // MOST_LABELS))
    named = {"border of a slot": GREY, "chosen route, row written; border of an invocation (C)": WRITE}
    plain = {"automargin": False, "showgrid": False}
    layout = {
        **dressing("A route, its record and its addresses", f"{provenance_line(provenance)}<br>{key(named)}", 590),
        "showlegend": False,
        "hovermode": "closest",
        "xaxis": {
            "range": span(routes), "nticks": 5,
            "title": {"text": "route i (click one): its height is ψ, its expert's slot"},
        },
        "yaxis": {
            "domain": [0.7, 1], "range": [last + 0.6, -1.6], "tickvals": [-1, *numbers],
            "ticktext": ["none", *map(str, numbers)], "title": {"text": "slot ψ"},
        },
        "xaxis2": {
            "anchor": "y2", "range": span(len(bound.binding)), "nticks": 5,
            "title": {"text": "record of Π: slot by slot, route order kept in each"},
        },
        "yaxis2": {
            "anchor": "x2", "domain": [0.33, 0.57], "range": [-1, routes], "nticks": 4, "title": {"text": "route i"},
        },
        "xaxis3": {"anchor": "y3", "range": [0, 1], "visible": False},
        "yaxis3": {
            "anchor": "x3", "domain": [0, 0.22], "range": [2.35, -0.35], "ticks": "", "tickvals": [0, 1, 2],
            "ticktext": strip_labels(bound.memory, access),
        },
    }  # fmt: skip
    for name in ("xaxis", "yaxis", "xaxis2", "yaxis2", "xaxis3", "yaxis3"):
        layout[name] |= plain
    layout["margin"] |= {"l": 150, "b": 12}
    return layout


def _axes(number: int) -> dict[str, str]:
    suffix = "" if number == 1 else str(number)
    return {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}


def _points(x: Any, y: Any, colours: list[str], size: int, panel: int) -> dict[str, Any]:
    marker = {"size": size, "color": colours}
    return {"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": marker, **_axes(panel)}


def _rings(x: list[int], y: list[int], size: int, panel: int) -> dict[str, Any]:
    marker = {"size": size + 9, "color": CLEAR, "line": {"color": WRITE, "width": 3}}
    return {
        "type": "scatter", "mode": "markers", "x": x, "y": y, "marker": marker, "hoverinfo": "skip", **_axes(panel),
    }  # fmt: skip
