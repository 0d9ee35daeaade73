"""How far kernels are off: of a layer's output, and of a single token's."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from estream_lab.viz.figures.theme import PANEL_TITLE, SEQUENCE, dress, provenance_line

SYMBOLS = {"relative_errors": ("circle", "all tokens"), "token_errors": ("line-ew-open", "the worst token")}


def kernel_errors(found: Mapping[str, Any]) -> go.Figure:
    """A panel for each kind of activations of a `bench kernels` result: relative L2 errors against float64, by row.

    A dot is the error of all tokens together, a dash that of the worst single one; there is a pair for each layer and
    number of tokens, from left to right in their order, in a colour of its own.
    """
    kinds = list(found["rows"][0]["relative_errors"])
    layers = list(dict.fromkeys((row["shape"], row["tokens"]) for row in found["rows"]))
    figure = make_subplots(rows=1, cols=len(kinds), shared_yaxes=True, subplot_titles=kinds, horizontal_spacing=0.03)
    figure.update_annotations(font_size=13)
    names = list(dict.fromkeys(_name(row) for row in found["rows"]))
    for number, (shape, tokens) in enumerate(layers):
        rows = [row for row in found["rows"] if (row["shape"], row["tokens"]) == (shape, tokens)]
        shift = 0.5 * ((number + 0.5) / len(layers) - 0.5)  # side by side within a row's place
        for column, kind in enumerate(kinds, 1):
            for key, (symbol, what) in SYMBOLS.items():
                marks = go.Scatter(
                    x=[names.index(_name(row)) + shift for row in rows],
                    y=[row[key][kind] for row in rows],
                    mode="markers",
                    name=f"{shape}, {tokens} tokens",
                    legendgroup=f"{shape}, {tokens}",
                    showlegend=column == 1 and key == "relative_errors",
                    marker={
                        "symbol": symbol,
                        "size": 9,
                        "color": SEQUENCE[number % len(SEQUENCE)],
                        "line": {"width": 2, "color": SEQUENCE[number % len(SEQUENCE)]},
                    },
                    customdata=[_name(row) for row in rows],
                    hovertemplate=f"%{{customdata}}, {shape}, {tokens} tokens, {kind}<br>{what}: %{{y:.2e}}"
                    "<extra></extra>",
                )
                figure.add_trace(marks, row=1, col=column)
    figure.update_xaxes(tickvals=list(range(len(names))), ticktext=names, range=[-0.5, len(names) - 0.5])
    figure.update_yaxes(type="log", exponentformat="power", dtick=1)
    figure.update_yaxes(title_text="relative error", row=1, col=1)
    provenance = {"kind": "computed", "machine": found["machine"]}
    note = "● all tokens together, — the worst single token, against float64"
    return dress(figure, "Errors of the kernels", f"{provenance_line(provenance)} · {note}", 300, PANEL_TITLE)


def _name(row: Mapping[str, Any]) -> str:
    return str(row["name"]) if row["implementation"] == "estream" else f"{row['implementation']} {row['name']}"
