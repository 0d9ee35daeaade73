"""Where the router sends the tokens."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from estream_lab.routing import Routes
from estream_lab.trace import Provenance
from estream_lab.viz.figures.theme import FAINT, GREY, SEQUENCE, dress, provenance_line


def loads(routes: Mapping[int, Routes], experts: int) -> NDArray[np.int64]:
    """Routes of each expert, int64 (layers, E), in ascending order of the layers."""
    return np.array([np.bincount(routes[layer].expert, minlength=experts) for layer in sorted(routes)])


def routes_heatmap(routes: Mapping[int, Routes], experts: int, provenance: Provenance) -> go.Figure:
    """Routes of every expert in every layer; experts that no token visits stay empty."""
    counts = loads(routes, experts)  # (L, E)
    share = counts / counts.sum(axis=1, keepdims=True)
    heat = go.Heatmap(
        z=np.where(counts > 0, counts, np.nan),
        x=list(range(experts)),
        y=sorted(routes),
        customdata=share,
        xgap=2,
        ygap=2,
        colorscale="Viridis",
        colorbar={"title": {"text": "routes"}, "outlinewidth": 0, "thickness": 14, "len": 1},
        hovertemplate="layer %{y}, expert %{x}<br>%{z} routes, %{customdata:.1%} of the layer<extra></extra>",
    )
    figure = go.Figure(heat)
    figure.update_xaxes(title_text="expert", showgrid=False, dtick=max(1, experts // 16))
    figure.update_yaxes(title_text="layer", showgrid=False, autorange="reversed", dtick=max(1, len(routes) // 16))
    visited = f"{int((counts > 0).sum())} of {counts.size} experts visited"
    return dress(figure, f"Routes: {visited}", provenance_line(provenance), max(150, 34 * len(routes)))


def route_load(routes: Mapping[int, Routes], experts: int, provenance: Provenance) -> go.Figure:
    """The experts of each layer from the busiest to the idlest, against an even spread."""
    counts = np.sort(loads(routes, experts), axis=1)[:, ::-1]  # (L, E)
    figure = go.Figure()
    for row, layer in enumerate(sorted(routes)):
        figure.add_scatter(
            x=list(range(1, experts + 1)),
            y=counts[row],
            mode="lines+markers",
            line={"shape": "hvh", "width": 2, "color": SEQUENCE[row % len(SEQUENCE)]},
            marker={"size": 5},
            name=f"layer {layer}",
            hovertemplate=f"layer {layer}, busiest expert no. %{{x}}<br>%{{y}} routes<extra></extra>",
        )
    even = counts.sum(axis=1).mean() / experts
    figure.add_hline(y=even, line={"color": GREY, "dash": "dot"}, annotation_text=f"even spread: {even:.0f}")
    figure.update_xaxes(title_text="experts, busiest first")
    figure.update_yaxes(title_text="routes", rangemode="tozero", gridcolor=FAINT)
    return dress(figure, "Load of the experts", provenance_line(provenance), 320)
