"""What static graphs would compute for a layer's routes, beside exact compaction."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from estream_lab.routing.padding import RowCost, capacity, row_costs
from estream_lab.trace import Provenance
from estream_lab.viz.figures.theme import COLOURS, GREY, PANEL_TITLE, dress, dressing, key, provenance_line

EMPTY = {"color": "rgba(128,128,128,0.2)"}
"""Rows without a route: work that nobody needs."""

HOVER = (
    "expert %{customdata[0]}: %{customdata[1]} routes, %{customdata[2]} dropped, %{customdata[3]} rows of padding"
    "<extra></extra>"
)

Costs = Mapping[str, RowCost]


def padding_bars(layers: Mapping[str, Costs], provenance: Provenance) -> go.Figure:
    """Rows computed per route in each way of running a labelled layer (`routing.padding.row_costs`), a panel each."""
    figure = make_subplots(
        rows=1, cols=len(layers), subplot_titles=[f"<b>{name}</b>" for name in layers], horizontal_spacing=0.07
    )
    figure.update_annotations(xanchor="left", font_size=13)
    for column, costs in enumerate(layers.values(), 1):
        figure.layout.annotations[column - 1].x = figure.get_subplot(1, column).xaxis.domain[0]
        for trace in row_bars(costs):
            figure.add_trace({**trace, "showlegend": trace["type"] == "bar" and column == 1}, row=1, col=column)
        figure.update_xaxes(range=[0, _longest(costs)], row=1, col=column)
    figure.update_yaxes(**_rows_axis(max(map(len, layers.values()))))
    figure.update_xaxes(title_text="rows computed per route", showgrid=False)
    dress(figure, "What fixed shapes would compute", provenance_line(provenance), 250, PANEL_TITLE)
    return figure.update_layout(barmode="stack", legend_traceorder="normal")


def capacity_panels(counts: NDArray[np.int64], tokens: int, factor: float, provenance: Provenance) -> go.Figure:
    """`capacity_drawing` as a figure."""
    return go.Figure(capacity_drawing(counts, tokens, factor, provenance))


def capacity_drawing(counts: NDArray[np.int64], tokens: int, factor: float, provenance: Provenance) -> dict[str, Any]:
    """One layer's loads against the capacity that a factor gives each expert, and the rows of every way to run it.

    Args:
        counts: int64 (E,), routes of each expert.
        tokens: T. factor: of the capacity.
        provenance: of the routes.
    """
    order = np.argsort(-counts, kind="stable")  # busiest first
    loads, limit = counts[order], capacity(int(counts.sum()), len(counts), factor)  # (E,)
    # outlines, the lower ones over the higher ones: a bar for each expert takes the browser three times as long
    outlines = (
        ("padding", np.maximum(loads, limit), EMPTY["color"]),
        ("dropped", loads, COLOURS["wait"]),
        ("rows with a route", np.minimum(loads, limit), COLOURS["storage"]),
    )
    told = np.stack([order, loads, np.maximum(loads - limit, 0), np.maximum(limit - loads, 0)], axis=1)
    areas = [
        {
            "type": "scatter",
            "name": name,
            "mode": "lines",
            "line": {"width": 0, "shape": "hvh"},
            "x": np.arange(len(counts) + 2),
            "y": np.concatenate([heights[:1], heights, heights[-1:]]),
            "fill": "tozeroy",
            "fillcolor": colour,
            "customdata": np.concatenate([told[:1], told, told[-1:]]),
            "hovertemplate": HOVER if name == "padding" else None,
            "hoverinfo": None if name == "padding" else "skip",
        }
        for name, heights, colour in outlines
    ]
    line = {
        "type": "scatter",
        "mode": "lines+text",
        "x": [0.5, len(counts) + 0.5],
        "y": [limit, limit],
        "line": {"color": GREY, "dash": "dot"},
        "text": ["", f"capacity {limit} "],
        "textposition": "top left",
        "hoverinfo": "skip",
    }
    costs = row_costs(counts, tokens, factor)
    right = [{**trace, "xaxis": "x2", "yaxis": "y2"} for trace in row_bars(costs)]
    top = 1.14 * max(limit, int(loads.max(initial=0)), 1)
    subtitle = f"{provenance_line(provenance)}<br>{key({name: colour for name, _, colour in reversed(outlines)})}"
    layout = {
        **dressing("Loads against a fixed capacity", subtitle, 300),
        "barmode": "stack",
        "showlegend": False,
        "xaxis": {
            "domain": [0, 0.56], "range": [0.5, len(counts) + 0.5], "title": {"text": "experts, busiest first"},
            "showgrid": False, "tickvals": [1, len(counts) // 4, len(counts) // 2, len(counts)], "automargin": False,
        },
        "yaxis": {"range": [0, top], "title": {"text": "routes"}, "nticks": 5, "automargin": False},
        "xaxis2": {
            "domain": [0.62, 1], "range": [0, _longest(costs)], "title": {"text": "rows computed per route"},
            "anchor": "y2", "showgrid": False, "showticklabels": False, "ticks": "", "automargin": False,
        },
        "yaxis2": {"anchor": "x2", **_rows_axis(len(costs)), "automargin": False},
    }  # fmt: skip
    return {"data": [*areas, line, *right], "layout": layout}


def row_bars(costs: Costs) -> list[dict[str, Any]]:
    """Three traces: rows with a route, rows without one, and the ways' names above their bars."""
    total = [max(cost.routes, 1) for cost in costs.values()]
    places = list(range(len(costs)))
    parts = (
        ("rows with a route", [cost.kept for cost in costs.values()], {"color": COLOURS["storage"]}),
        ("padding", [cost.padding for cost in costs.values()], EMPTY),
    )
    ratios = [f" {cost.rows / routes:.2f}×" for cost, routes in zip(costs.values(), total, strict=True)]
    bars: list[dict[str, Any]] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": places,
            "x": [rows / routes for rows, routes in zip(values, total, strict=True)],
            "width": 0.42,
            "offset": -0.05,
            "customdata": values,
            "marker": marker,
            "text": ratios if name == "padding" else None,
            "textposition": "outside",
            "cliponaxis": False,
            "hovertemplate": f"%{{customdata}} {name}<extra></extra>",
        }
        for name, values, marker in parts
    ]
    names = {
        "type": "scatter",
        "mode": "text",
        "x": [0] * len(costs),
        "y": [place - 0.28 for place in places],
        "text": [f"{name}{_loss(cost)}" for name, cost in costs.items()],
        "textposition": "middle right",
        "hoverinfo": "skip",
        "cliponaxis": False,
    }
    return [*bars, names]


def _loss(cost: RowCost) -> str:
    share = cost.dropped / max(cost.routes, 1)
    return f": <b>{share:.1%} dropped</b>" if cost.dropped else ""


def _longest(costs: Costs) -> float:
    """The end of the axis: room for the figure behind the longest bar."""
    return 1.2 * max(1.5, *(cost.rows / max(cost.routes, 1) for cost in costs.values()))


def _rows_axis(ways: int) -> dict[str, Any]:
    return {"range": [ways - 0.5, -0.55], "showgrid": False, "showticklabels": False, "ticks": ""}
