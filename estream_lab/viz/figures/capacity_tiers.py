"""What capacity tiers drop and pad, by the quantile of the load that they are made for."""

from collections.abc import Mapping

import plotly.graph_objects as go

from estream_lab.simulate.rivals import Outcome
from estream_lab.trace import Provenance
from estream_lab.viz.figures.theme import PANEL_TITLE, SEQUENCE, dress, provenance_line, two_panels

Curve = Mapping[float, Outcome]
"""Quantile p → what came of it."""


def tier_curves(calibrations: Mapping[str, Curve], provenance: Provenance) -> go.Figure:
    """Routes and saliency dropped, and rows computed per kept route, against p, for each labelled calibration."""
    figure = two_panels("dropped, % (dotted: of |α| · ‖x‖)", "rows computed per kept route")
    for number, (label, curve) in enumerate(calibrations.items()):
        found = list(curve.values())
        sides = (
            (1, "routes", "solid", [100 * one.rows.dropped / max(one.rows.routes, 1) for one in found]),
            (1, "saliency", "dot", [100 * one.saliency_dropped for one in found]),
            (2, "rows", "solid", [one.rows.rows / max(one.rows.kept, 1) for one in found]),
        )
        for column, what, dash, values in sides:
            figure.add_scatter(
                x=list(curve),
                y=values,
                mode="lines+markers",
                name=label,
                legendgroup=label,
                showlegend=what == "routes",
                line={"color": SEQUENCE[number % len(SEQUENCE)], "dash": dash, "width": 2},
                marker={"size": 5},
                hovertemplate=f"{label}, p = %{{x:g}}<br>{what} %{{y:.2f}}<extra></extra>",
                row=1,
                col=column,
            )
    figure.update_xaxes(title_text="quantile p of the load in calibration")
    figure.update_yaxes(rangemode="tozero")
    return dress(figure, "What capacity tiers drop and pad", provenance_line(provenance), 260, PANEL_TITLE)
