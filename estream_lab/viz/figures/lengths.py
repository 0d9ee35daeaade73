"""Time over the length of the prompt, a curve a model, and what is published at some lengths."""

from collections.abc import Sequence

import plotly.graph_objects as go

from estream_lab.trace import Provenance
from estream_lab.tuning.paper.lengths import Run, published_seconds
from estream_lab.tuning.paper.marks import KINDS
from estream_lab.viz.figures.kinds import SYMBOLS, hover
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
            name=f"{title}, simulated",
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
                marker={"symbol": SYMBOLS[kind], "size": 11, "color": colour, "line": {"width": 2}},
                name=f"{title}, {kind}",
                legendgroup=model,
                hovertemplate=[hover(mark) for _, mark in chosen],
            )
    lengths = sorted({run.tokens for run in runs})
    figure.update_xaxes(
        title_text="tokens of the prompt", type="log", tickvals=lengths, ticktext=list(map(str, lengths))
    )
    figure.update_yaxes(title_text="seconds to the first token", type="log", dtick="D2")
    return dress(figure, "Time over the length of the prompt", provenance_line(provenance), 380)
