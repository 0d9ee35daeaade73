"""How long storage and compute stood still."""

from collections.abc import Mapping

import plotly.graph_objects as go

from estream_lab.trace import Trace, npu_idle, storage_idle
from estream_lab.viz.figures.theme import COLOURS, common_line, dress, milliseconds


def idle_bars(traces: Mapping[str, Trace]) -> go.Figure:
    """Storage idle and compute idle of each labelled run, in per cent of its request's time."""
    labels = [f"{label}<br>{milliseconds(trace.request_ns)}" for label, trace in traces.items()]
    figure = go.Figure()
    for name, metric, colour in (
        ("storage idle", storage_idle, COLOURS["storage"]),
        ("compute idle", npu_idle, COLOURS["dense"]),
    ):
        shares = [100 * metric(trace) for trace in traces.values()]
        figure.add_bar(
            x=labels,
            y=shares,
            name=name,
            marker_color=colour,
            text=[f"{share:.1f} %" for share in shares],
            textposition="outside",
            cliponaxis=False,
            hovertemplate=f"%{{x}}<br>{name} %{{y:.1f}} %<extra></extra>",
        )
    figure.update_xaxes(showgrid=False)
    figure.update_yaxes(title_text="share of the request, %", rangemode="tozero")
    dress(figure, "Idle time", common_line(list(traces.values())), 280)
    return figure.update_layout(barmode="group")
