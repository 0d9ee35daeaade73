"""How far a configuration is from what any order of the groups could reach."""

from collections.abc import Mapping

import plotly.graph_objects as go

from estream_lab.trace import Provenance
from estream_lab.tuning.flow_shop import Distances
from estream_lab.viz.figures.theme import GREY, SEQUENCE, dress, provenance_line

NAMES = {
    "offline": "as stored",
    "descending work": "most work first",
    "johnson": "Johnson's order",
}
ROW = 30  # px


def order_bars(found: Mapping[str, Distances], provenance: Provenance) -> go.Figure:
    """T_pipe over the lower bound, in per cent, of each labelled configuration in each order of its groups.

    The bound is Johnson's order with a bank for every group and reads one after the other.
    """
    labels = list(found)
    figure = go.Figure()
    for number, (order, name) in enumerate(NAMES.items()):
        over = [100 * (each.by_order_ns[order] / each.bound_ns - 1) for each in found.values()]
        figure.add_bar(
            y=labels,
            x=over,
            orientation="h",
            name=name,
            marker_color=SEQUENCE[number],
            text=[f"{value:+.1f} %" for value in over],
            textposition="outside",
            cliponaxis=False,
            customdata=[each.by_order_ns[order] / 1e6 for each in found.values()],
            hovertemplate=f"%{{y}}<br>{name}: %{{customdata:.2f}} ms, %{{x:.2f}} % over the bound<extra></extra>",
        )
    most = max(each.by_order_ns[order] / each.bound_ns - 1 for each in found.values() for order in NAMES)
    figure.add_vline(x=0, line={"color": GREY, "width": 1})
    figure.update_xaxes(title_text="T_pipe over the lower bound, %", range=[0, 115 * max(most, 0.01)])
    figure.update_yaxes(autorange="reversed", showgrid=False, ticks="")
    dress(figure, "No order beats Johnson's bound", provenance_line(provenance), ROW * len(NAMES) * len(labels) + 20)
    return figure.update_layout(barmode="group", legend_traceorder="normal")
