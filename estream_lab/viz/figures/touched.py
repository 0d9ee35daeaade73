"""How many experts a prompt touches as it grows."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from estream_lab.trace import Provenance
from estream_lab.viz.figures.theme import GREY, SEQUENCE, dress, provenance_line

Curves = Mapping[str, tuple[NDArray[np.int64] | NDArray[np.float64], int]]
"""Label → experts touched by the first 1, 2, …, T tokens (T,), and E."""

POINTS = 200


def touched_curve(measured: Curves, synthetic: Curves, expected: Curves, provenance: Provenance) -> go.Figure:
    """Share of a layer's experts that the first T tokens touch: solid where routes were measured, dashed where they
    were drawn at random, dotted where the curve is a formula."""
    figure = go.Figure()
    kinds = ((measured, "measured", "solid"), (synthetic, "synthetic", "dash"), (expected, "formula", "dot"))
    number = 0
    for curves, kind, dash in kinds:
        for label, (touched, experts) in curves.items():
            told = f"{label} ({kind})"
            colour = GREY if kind == "formula" else SEQUENCE[number % len(SEQUENCE)]
            number += kind != "formula"
            at = _log_spaced(len(touched))
            figure.add_scatter(
                x=at + 1,
                y=100 * touched[at] / experts,
                customdata=touched[at],
                mode="lines",
                line={"color": colour, "dash": dash, "width": 2},
                name=told,
                hovertemplate=f"{told}<br>%{{x}} tokens touch %{{customdata:.3~g}} of {experts}<extra></extra>",
            )
    figure.update_xaxes(title_text="tokens of the prompt", type="log", dtick=np.log10(2), minor_showgrid=False)
    figure.update_yaxes(title_text="experts touched, %", range=[0, 104])
    return dress(figure, "Experts that a prompt touches", provenance_line(provenance), 320)


def _log_spaced(length: int) -> NDArray[np.int64]:
    """At most `POINTS` places 0 … length - 1, evenly spread on the logarithmic axis, with both ends."""
    places = np.unique(np.geomspace(1, max(length, 1), POINTS).round().astype(np.int64)) - 1
    return places[: length or 0]
