"""Slot compaction on one layer: from routes to records joined with slots (paper, section on slot compaction)."""

from typing import Any, Protocol

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from estream_lab.routing import Routes
from estream_lab.trace import Provenance
from estream_lab.viz.figures.theme import CLEAR, GREY, SEQUENCE, dress, provenance_line

SLOTS = SEQUENCE[:-1]
"""Colours of slots, in turn: all but grey."""

ELSEWHERE = "rgba(128,128,128,0.42)"
"""Routes whose expert lies in another bank, or in none."""


class Records(Protocol):
    """Records in CSR form over slots: `estream_lab.experts.binding.Binding` is one.

    `offsets` int64 (S+1,), `token` and `route` int32 (n,), `slot` int32 (S,).
    """

    @property
    def offsets(self) -> NDArray[np.int64]: ...  # noqa: D102
    @property
    def token(self) -> NDArray[np.int32]: ...  # noqa: D102
    @property
    def route(self) -> NDArray[np.int32]: ...  # noqa: D102
    @property
    def slot(self) -> NDArray[np.int32]: ...  # noqa: D102


def compaction(routes: Routes, placement: NDArray[np.int32], records: Records, provenance: Provenance) -> go.Figure:
    """The steps of compaction over the routes of one layer.

    Args:
        routes: the layer's routes, in route order.
        placement: Φ, int32 (E,): the slot of each ready expert, -1 where it is not resident.
        records: what compaction made of them.
        provenance: of the routes.

    Panels: ψ (the slot of each route, in route order), the histogram c over slots, Π (the records, slot by slot,
    stable in route order) between the offsets o, and the prefix sum o.
    """
    figure = make_subplots(
        rows=2,
        cols=2,
        column_widths=[0.72, 0.28],
        horizontal_spacing=0.09,
        vertical_spacing=0.24,
        subplot_titles=[
            "1 · ψ: the slot of every route, in route order",
            "2 · c: routes of each slot",
            "4 · Π: records slot by slot, route order kept in each",
            "3 · o: prefix sum of c",
        ],
    )
    figure.update_annotations(xanchor="left", font_size=13)
    for annotation, x in zip(figure.layout.annotations, (0, 0.7, 0, 0.7), strict=True):
        annotation.x = x
    _add_slots(figure, routes, placement, records)
    _add_records(figure, routes, records)
    title = f"Slot compaction: {len(records.token)} of {len(routes)} routes bound to {len(records.slot)} slots"
    dress(figure, title, provenance_line(provenance), 520)
    return figure.update_layout(
        margin_t=figure.layout.margin.t + 24, height=figure.layout.height + 24, showlegend=False
    )


def borders(
    places: NDArray[np.floating[Any]], low: float, high: float, colour: str = GREY, dash: str = "dot"
) -> dict[str, Any]:
    """Upright lines at these places as one scatter trace: shapes would be drawn one by one."""
    at = np.repeat(np.unique(places), 3)  # an empty slot's borders coincide
    return {
        "x": at,
        "y": np.tile([low, high, np.nan], len(at) // 3),  # a gap after each line
        "mode": "lines",
        "line": {"color": colour, "width": 1, "dash": dash},
        "hoverinfo": "skip",
    }


def slot_colours(slots: NDArray[np.int32] | NDArray[np.int64], records: Records) -> list[str]:
    """A colour for each slot number; routes bound elsewhere are grey."""
    place = {int(slot): i for i, slot in enumerate(records.slot)}
    return [SLOTS[place[int(s)] % len(SLOTS)] if int(s) in place else ELSEWHERE for s in slots]


def span(count: int) -> list[float]:
    """An axis of 0 … count - 1 with a little room."""
    return [-0.6 - 0.01 * count, max(count, 1) - 0.4 + 0.01 * count]


def _whole_steps(most: int) -> int:
    """The distance of ticks on an axis of counts: there are no half routes."""
    return max(1, -(-most // 4))


def _add_slots(figure: go.Figure, routes: Routes, placement: NDArray[np.int32], records: Records) -> None:
    psi = placement[routes.expert]  # (R,)
    counts = np.diff(records.offsets)  # (S,)
    size = 4 if len(routes) > 200 else 8
    figure.add_scatter(
        x=np.arange(len(routes)),
        y=psi,
        mode="markers",
        marker={"size": size, "color": slot_colours(psi, records)},
        customdata=np.stack([routes.token, routes.expert], axis=1),
        hovertemplate="route %{x}: token %{customdata[0]}, expert %{customdata[1]}<br>slot %{y}<extra></extra>",
        row=1,
        col=1,
    )
    figure.add_bar(
        x=counts,
        y=records.slot,
        orientation="h",
        marker_color=slot_colours(records.slot, records),
        hovertemplate="slot %{y}: %{x} routes<extra></extra>",
        row=1,
        col=2,
    )
    figure.add_bar(
        x=records.offsets[:-1],
        y=records.slot,
        orientation="h",
        marker={"color": CLEAR, "line": {"color": GREY, "width": 1}},
        hovertemplate="slot %{y} starts at record %{x}<extra></extra>",
        row=2,
        col=2,
    )
    figure.add_bar(
        x=counts,
        base=records.offsets[:-1],
        y=records.slot,
        orientation="h",
        marker_color=slot_colours(records.slot, records),
        customdata=records.offsets[1:],
        hovertemplate="slot %{y}: records up to %{customdata}<extra></extra>",
        row=2,
        col=2,
    )
    lowest = min(-1, int(records.slot.min())) if (psi < 0).any() else int(records.slot.min())
    highest = max(int(records.slot.max()), int(psi.max()))
    numbers = list(range(0, highest + 1, 1 + highest // 16))
    ticks = {
        "range": [highest + 0.6, lowest - 0.6],
        "showgrid": False,
        "tickvals": [-1, *numbers],
        "ticktext": ["none", *map(str, numbers)],  # an expert that is not resident has no slot
    }
    figure.update_yaxes(title_text="slot", **ticks, row=1, col=1)
    figure.update_yaxes(**ticks, row=1, col=2)
    figure.update_yaxes(**ticks, row=2, col=2)
    figure.update_xaxes(title_text="route i", range=span(len(routes)), row=1, col=1)
    figure.update_xaxes(title_text="routes", dtick=_whole_steps(int(counts.max(initial=1))), row=1, col=2)
    figure.update_xaxes(title_text="records", dtick=_whole_steps(len(records.token)), row=2, col=2)


def _add_records(figure: go.Figure, routes: Routes, records: Records) -> None:
    slots = np.repeat(records.slot, np.diff(records.offsets))  # (n,)
    figure.add_scatter(
        x=np.arange(len(slots)),
        y=records.route,
        mode="markers",
        marker={"size": 4 if len(slots) > 200 else 8, "color": slot_colours(slots, records)},
        customdata=np.stack([records.token, slots], axis=1),
        hovertemplate="record %{x}: slot %{customdata[1]}<br>token %{customdata[0]}, route %{y}<extra></extra>",
        row=2,
        col=1,
    )
    figure.add_scatter(**borders(records.offsets - 0.5, -0.02 * len(routes) - 0.5, 1.02 * len(routes)), row=2, col=1)
    figure.update_xaxes(title_text="record", range=span(len(slots)), showgrid=False, row=2, col=1)
    figure.update_yaxes(title_text="route i", range=[-0.02 * len(routes) - 0.5, 1.02 * len(routes)], row=2, col=1)
