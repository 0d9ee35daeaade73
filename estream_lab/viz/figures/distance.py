"""How far simulations are from what was measured."""

from collections.abc import Mapping

import plotly.graph_objects as go

from estream_lab.trace import Trace
from estream_lab.viz.figures.theme import CLEAR, COLOURS, GREY, SEQUENCE, common_line, dress, milliseconds


def distances(measured: Mapping[str, Trace], simulated: Mapping[str, Mapping[str, Trace]]) -> go.Figure:
    """Measured time of each labelled run, filled, beside each named simulation of it, hatched, with its distance."""
    labels = list(measured)
    figure = go.Figure()
    times = [trace.request_ns for trace in measured.values()]
    figure.add_bar(
        x=labels,
        y=[time / 1e6 for time in times],
        name="measured",
        marker_color=COLOURS["dense"],
        text=[milliseconds(time) for time in times],
        textposition="outside",
        textangle=0,
        cliponaxis=False,
        hovertemplate="%{x}<br>measured %{y:.1f} ms<extra></extra>",
    )
    for (name, traces), colour in zip(simulated.items(), (SEQUENCE[0], SEQUENCE[3], SEQUENCE[1]), strict=False):
        found = [traces[label].request_ns for label in labels]
        figure.add_bar(
            x=labels,
            y=[time / 1e6 for time in found],
            name=name,
            marker={
                "color": CLEAR,
                "line": {"color": colour, "width": 1},
                "pattern": {"shape": "/", "fgcolor": colour, "size": 6, "solidity": 0.3},
            },
            text=[f"{distance(time, real):+.1%}" for time, real in zip(found, times, strict=True)],
            textposition="outside",
            textangle=0,
            cliponaxis=False,
            hovertemplate=f"%{{x}}<br>{name} %{{y:.1f}} ms<extra></extra>",
        )
    figure.update_xaxes(showgrid=False)
    figure.update_yaxes(title_text="ms a request", rangemode="tozero")
    subtitle = common_line(list(measured.values()))
    dress(figure, "Measured, and simulated from measured service times", subtitle, 280)
    return figure.update_layout(barmode="group", font_color=GREY)


def distance(simulated: float, measured: float) -> float:
    """Relative distance of a simulated time from a measured one; above 0 where the simulation is slower."""
    return simulated / measured - 1
