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
    return load_curves({f"layer {layer}": routes[layer] for layer in sorted(routes)}, experts, provenance)


def load_curves(routes: Mapping[str, Routes], experts: int, provenance: Provenance) -> go.Figure:
    """The experts of each labelled layer from the busiest to the idlest, against an even spread.

    Loads are told in shares of the layer's routes, so that layers of different prompts compare.
    """
    figure = go.Figure()
    for row, (label, layer) in enumerate(routes.items()):
        counts = np.sort(layer.counts(experts))[::-1]  # (E,)
        figure.add_scatter(
            x=np.arange(1, experts + 1),
            y=100 * counts / max(counts.sum(), 1),
            customdata=counts,
            mode="lines+markers",
            line={"shape": "hvh", "width": 2, "color": SEQUENCE[row % len(SEQUENCE)]},
            marker={"size": 5},
            name=label,
            hovertemplate=f"{label}, busiest expert no. %{{x}}<br>%{{customdata}} routes, %{{y:.1f}} %<extra></extra>",
        )
    even = 100 / experts
    figure.add_hline(
        y=even,
        line={"color": GREY, "dash": "dot"},
        annotation_text=f"even spread: {even:.3g} %",
        annotation_position="top right",
    )
    figure.update_xaxes(title_text="experts, busiest first")
    figure.update_yaxes(title_text="share of the layer's routes, %", rangemode="tozero", gridcolor=FAINT)
    return dress(figure, "Load of the experts", provenance_line(provenance), 320)
