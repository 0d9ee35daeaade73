"""What a router makes of its logits: scores, choice and weights, under the rules of several model families."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from estream_lab.routing import RouterSpec, route
from estream_lab.trace import Provenance
from estream_lab.viz.figures.theme import COLOURS, FAINT, GREY, PANEL_TITLE, SEQUENCE, dress, provenance_line

IDLE = "rgba(128,128,128,0.45)"


def router_scores(
    logits: NDArray[np.float32], specs: Mapping[str, RouterSpec], provenance: Provenance, token: str = ""
) -> go.Figure:
    """One token's score of every expert under each labelled rule; the chosen ones are coloured and bear their α.

    Args:
        logits: (E,) float32, the router's for that token.
        specs: the rules, all of E experts.
        provenance: of the logits. token: the token as text, for the title.
    """
    figure = make_subplots(rows=1, cols=len(specs), subplot_titles=list(specs), horizontal_spacing=0.1)
    figure.update_annotations(xanchor="left", font_size=13)
    for column, spec in enumerate(specs.values(), 1):
        figure.layout.annotations[column - 1].x = figure.get_subplot(1, column).xaxis.domain[0]
        all_scores = route(logits[None], replace(spec, top_k=spec.experts, renormalise=False, scale=1.0))
        scores = all_scores.weight[np.argsort(all_scores.expert)]  # (E,)
        chosen = route(logits[None], spec)
        alpha = dict(zip(chosen.expert.tolist(), chosen.weight.tolist(), strict=True))
        figure.add_bar(
            x=np.arange(spec.experts),
            y=scores,
            marker_color=[COLOURS["expert"] if e in alpha else IDLE for e in range(spec.experts)],
            text=[f"α {alpha[e]:.2f}" if e in alpha else "" for e in range(spec.experts)],
            textposition="outside",
            textangle=0,
            constraintext="none",
            cliponaxis=False,
            customdata=logits,
            hovertemplate="expert %{x}<br>logit %{customdata:.2f}, score %{y:.3f}<extra></extra>",
            row=1,
            col=column,
        )
        figure.update_xaxes(title_text="expert", showgrid=False, row=1, col=column)
        figure.update_yaxes(range=[0, 1.12 * float(scores.max())], row=1, col=column)
    figure.update_yaxes(title_text="score", row=1, col=1)
    shown = token.replace("&", "&amp;").replace("<", "&lt;")
    title = f"The router's scores for the token “{shown}”" if token else "The router's scores for one token"
    dress(figure, title, provenance_line(provenance), 250, PANEL_TITLE)
    return figure.update_layout(
        margin_t=figure.layout.margin.t + 22, height=figure.layout.height + 22, showlegend=False
    )


def weight_sums(logits: NDArray[np.float32], specs: Mapping[str, RouterSpec], provenance: Provenance) -> go.Figure:
    """The weights of a token's k experts and their sum Σα under each labelled rule, over the same logits.

    Args:
        logits: (T, E) float32.
        specs: the rules, all of E experts.
        provenance: of the logits.
    """
    weights = [route(logits, spec).weight.reshape(len(logits), spec.top_k) for spec in specs.values()]  # (T, k) each
    labels, ranks = list(specs), max(spec.top_k for spec in specs.values())
    figure = go.Figure()
    for rank in range(ranks):
        mean = [w[:, rank].mean() if rank < w.shape[1] else 0.0 for w in weights]
        figure.add_bar(
            y=labels,
            x=mean,
            orientation="h",
            name=f"α of choice {rank + 1}",
            marker_color=SEQUENCE[rank % len(SEQUENCE)],
            hovertemplate=f"%{{y}}<br>mean α of choice {rank + 1}: %{{x:.3f}}<extra></extra>",
        )
    for label, w in zip(labels, weights, strict=True):
        total = w.sum(axis=1)  # (T,)
        spread = f"{total.min():.2f} to {total.max():.2f}" if np.ptp(total) > 1e-3 else "for every token"
        figure.add_annotation(
            x=float(w.mean(axis=0).sum()),
            y=label,
            text=f"<b>Σα = {total.mean():.2f}</b>  {spread}",
            xanchor="left",
            xshift=6,
            showarrow=False,
        )
    figure.add_vline(x=1, line={"color": GREY, "dash": "dot"})
    figure.update_xaxes(title_text="weight, mean over the tokens", range=[0, 1.45], gridcolor=FAINT)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    dress(figure, "The sum of a token's weights", provenance_line(provenance), 44 * len(specs) + 20)
    return figure.update_layout(barmode="stack", legend_traceorder="normal")
