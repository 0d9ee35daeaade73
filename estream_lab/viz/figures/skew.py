"""How unevenly different inputs load a model's experts."""

from collections.abc import Mapping

import plotly.graph_objects as go

from estream_lab.routing import Routes, skew
from estream_lab.trace import Provenance
from estream_lab.viz.figures.theme import GREY, PANEL_TITLE, SEQUENCE, dress, provenance_line, two_panels


def skew_bars(inputs: Mapping[str, Mapping[int, Routes]], experts: int, provenance: Provenance) -> go.Figure:
    """Effective experts and the busiest expert's share in every layer, for each labelled input.

    Effective experts: exp of the entropy of the experts' shares (`routing.skew`), E where all are used alike.
    """
    figure = two_panels("effective experts", "share of the busiest expert, %")
    for number, (label, layers) in enumerate(inputs.items()):
        names = [f"layer {layer}" for layer in sorted(layers)]
        found = [skew(layers[layer], experts) for layer in sorted(layers)]
        sides = (
            ([one.effective_experts for one in found], "%{x}: %{y:.1f} effective experts"),
            ([100 * one.busiest_share for one in found], "%{x}: busiest expert %{y:.1f} %"),
        )
        for column, (values, hover) in enumerate(sides, 1):
            figure.add_bar(
                x=names,
                y=values,
                name=label,
                legendgroup=label,
                showlegend=column == 1,
                marker_color=SEQUENCE[number % len(SEQUENCE)],
                text=[f"{value:.1f}" if column == 1 else f"{value:.0f}" for value in values],
                textposition="outside",
                textangle=0,
                textfont_size=11,
                constraintext="none",
                cliponaxis=False,
                hovertemplate=f"{label}<br>{hover}<extra></extra>",
                row=1,
                col=column,
            )
    for column, even in ((1, float(experts)), (2, 100 / experts)):
        figure.add_hline(y=even, line={"color": GREY, "dash": "dot"}, row=1, col=column)
    figure.update_xaxes(showgrid=False)
    figure.update_yaxes(rangemode="tozero")
    dress(figure, f"Skew over {experts} experts (dotted: all alike)", provenance_line(provenance), 260, PANEL_TITLE)
    return figure.update_layout(barmode="group")
