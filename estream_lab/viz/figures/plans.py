"""What two planners predict of every number of banks, beside what the simulator makes of it."""

import plotly.graph_objects as go

from estream_lab.trace import Provenance
from estream_lab.tuning.plans import PlanCurves
from estream_lab.viz.figures.theme import COLOURS, FAINT, GREY, dress, provenance_line


def plan_curves(curves: PlanCurves, provenance: Provenance) -> go.Figure:
    """Request time against banks: the recurrence and the roofline as lines, simulated times as marks; what is grey
    doesn't fit the budget."""
    banks = list(range(1, len(curves.simulated) + 1))
    figure = go.Figure()
    lines = (("roofline", curves.roofline, "other", "dot"), ("max-plus", curves.maxplus, "expert", "solid"))
    for name, seconds, colour, dash in lines:
        figure.add_scatter(
            x=banks,
            y=seconds,
            mode="lines",
            name=f"{name}, predicted",
            line={"color": COLOURS[colour], "dash": dash, "width": 2},
            hovertemplate=f"{name}, %{{x}} banks<br>%{{y:.3f}} s predicted<extra></extra>",
        )
    figure.add_scatter(
        x=banks,
        y=curves.simulated,
        mode="markers",
        name="simulated",
        marker={"color": COLOURS["storage"], "size": 9},
        hovertemplate="%{x} banks<br>%{y:.3f} s simulated<extra></extra>",
    )
    if curves.fits < len(banks):
        figure.add_vrect(x0=curves.fits + 0.5, x1=len(banks) + 0.5, fillcolor=FAINT, line_width=0, layer="below")
        figure.add_annotation(
            x=len(banks) + 0.4, y=1, yref="paper", text="over the budget", xanchor="right", showarrow=False,
            font_color=GREY,
        )  # fmt: skip
    figure.update_xaxes(title_text=f"banks of {curves.group_size} experts", dtick=1, range=[0.5, len(banks) + 0.5])
    figure.update_yaxes(title_text="seconds a request", rangemode="tozero")
    return dress(figure, "Two planners and the simulator", provenance_line(provenance), 280)
