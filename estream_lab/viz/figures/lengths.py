"""Time over the length of the prompt, a curve a model, and what is published at some lengths."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from estream_lab.trace import Provenance
from estream_lab.tuning.paper.lengths import Run, published_seconds
from estream_lab.tuning.paper.marks import KINDS
from estream_lab.viz.figures.kinds import SYMBOLS, hover
from estream_lab.viz.figures.round_numbers import round_numbers
from estream_lab.viz.figures.theme import SEQUENCE, dress, provenance_line


def length_curves(runs: Sequence[Run], provenance: Provenance) -> go.Figure:
    """Simulated times as a line for each model, published ones as diamonds in its colour, with a line to the simulated
    time that they belong to."""
    figure = go.Figure()
    for number, model in enumerate(dict.fromkeys(run.model for run in runs)):
        mine = [run for run in runs if run.model == model]
        colour = SEQUENCE[number % len(SEQUENCE)]
        title = mine[0].simulation.workload.model.title
        figure.add_scatter(
            x=[run.tokens for run in mine],
            y=[run.simulation.seconds for run in mine],
            mode="lines+markers",
            line={"color": colour, "width": 2},
            marker={"symbol": [SYMBOLS[run.kind] for run in mine], "size": 8},
            name=title,
            legendgroup=model,
            hovertemplate=[
                f"<b>{run.of}</b><br>%{{y:.3f}} s, {run.configuration}<br>{run.kind}: {KINDS[run.kind]}<extra></extra>"
                for run in mine
            ],
        )
        theirs = [(run, mark) for run in mine for mark in published_seconds(run)]
        for run, mark in theirs:
            figure.add_scatter(
                x=[run.tokens, run.tokens], y=[run.simulation.seconds, mark.value], mode="lines",
                line={"color": colour, "width": 1, "dash": "dot"}, showlegend=False, hoverinfo="skip",
            )  # fmt: skip
        for kind in dict.fromkeys(mark.kind for _, mark in theirs):
            chosen = [(run, mark) for run, mark in theirs if mark.kind == kind]
            figure.add_scatter(
                x=[run.tokens for run, _ in chosen],
                y=[mark.value for _, mark in chosen],
                mode="markers",
                marker={"symbol": SYMBOLS[kind], "size": 11, "color": colour, "line": {"width": 2, "color": colour}},
                name=f"{title}, {kind}",
                legendgroup=model,
                showlegend=False,
                hovertemplate=[hover(mark) for _, mark in chosen],
            )
    lengths = sorted({run.tokens for run in runs})
    figure.update_xaxes(
        title_text="tokens of the prompt", type="log", tickvals=lengths, ticktext=list(map(str, lengths))
    )
    low, high = _range([value for trace in figure.data for value in trace.y])
    figure.update_yaxes(
        title_text="seconds to the first token", type="log", range=[low, high], tickvals=round_numbers(low, high)
    )
    note = "△ simulated □ fitted ◆ published ◇ published, in notes; dotted: how far they are apart"
    return dress(figure, "Time over the length of the prompt", f"{provenance_line(provenance)}<br>{note}", 380)


def _range(seconds: Sequence[float]) -> tuple[float, float]:
    """Of the logarithmic axis, with room for a mark at both ends."""
    return float(np.log10(min(seconds))) - 0.05, float(np.log10(max(seconds))) + 0.05
