"""What the model expects next."""

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from estream_lab.trace import Provenance
from estream_lab.viz.figures.theme import COLOURS, dress, provenance_line

TAIL = 40  # characters of the prompt


def next_tokens(top: Sequence[tuple[int, str, float]], provenance: Provenance, prompt: str = "") -> go.Figure:
    """The likeliest next tokens, `(id, text, log-probability)` from the likeliest on, as probabilities.

    `prompt` is the text that they follow; its end is shown.
    """
    chances = [100 * math.exp(logprob) for _, _, logprob in top]
    labels = [f"{text!r}  ({token})" for token, text, _ in top]
    figure = go.Figure(
        go.Bar(
            x=chances,
            y=labels,
            orientation="h",
            marker_color=COLOURS["dense"],
            text=[f"{chance:.1f} %" for chance in chances],
            textposition="outside",
            cliponaxis=False,
            hovertemplate="%{y}: %{x:.2f} %<extra></extra>",
        )
    )
    figure.update_xaxes(title_text="probability, %", range=[0, max(chances) * 1.12])
    figure.update_yaxes(autorange="reversed", showgrid=False, tickfont={"family": "monospace", "size": 14})
    tail = prompt[-TAIL:].replace("\n", "⏎").replace("&", "&amp;").replace("<", "&lt;")
    return dress(
        figure, f"Next token after “…{tail}”" if prompt else "Next token", provenance_line(provenance), 34 * len(top)
    )
