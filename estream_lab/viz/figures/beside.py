"""Values beside each other: a panel a quantity, a row for whose they are, a symbol for how they came about."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from estream_lab.errors import EStreamError
from estream_lab.trace import Provenance
from estream_lab.tuning.paper.marks import KINDS, NOTED, PUBLISHED, Mark, by_quantity
from estream_lab.viz.figures.kinds import KIND_COLOURS, SYMBOLS, UNIT_BYTES, bytes_unit, hover
from estream_lab.viz.figures.round_numbers import round_numbers
from estream_lab.viz.figures.theme import FAINT, GREY, PANEL_TITLE, dress, provenance_line

ROW = 38  # px


def beside(marks: Sequence[Mark], title: str, provenance: Provenance, *, logarithmic: bool = False) -> go.Figure:
    """Marks in rows by whose they are, in panels by quantity, with their values: published ones above, ours below.

    Bytes are shown in MiB or GiB, a panel in one of them.

    Raises:
        EStreamError: no marks.
    """
    if not marks:
        raise EStreamError("there are no values to put beside each other: give some")
    panels = by_quantity(marks)
    rows = list(dict.fromkeys(mark.of for mark in marks))
    names = [f"{quantity}, {_scaled(group)[1]}" for quantity, group in panels.items()]
    figure = make_subplots(rows=1, cols=len(panels), shared_yaxes=True, subplot_titles=names, horizontal_spacing=0.05)
    figure.update_annotations(font_size=13)
    shown: set[str] = set()
    for column, group in enumerate(panels.values(), 1):
        values, _ = _scaled(group)
        for kind in KINDS:
            chosen = [(mark, value) for mark, value in zip(group, values, strict=True) if mark.kind == kind]
            if chosen:
                figure.add_trace(_of_kind(kind, chosen, rows, kind not in shown), row=1, col=column)
                shown.add(kind)
        figure.update_xaxes(_axis(values, logarithmic), row=1, col=column)
    figure.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=rows, range=[len(rows) - 0.4, -0.6], ticks="", gridcolor=FAINT
    )
    return dress(figure, title, provenance_line(provenance), ROW * len(rows) + 20, PANEL_TITLE)


def _axis(values: Sequence[float], logarithmic: bool) -> dict[str, Any]:
    """An axis with room for a mark's value at both ends, and 0 on it unless it is logarithmic."""
    places = np.log10(values) if logarithmic else np.array([0.0, *values])
    room = 0.12 * (float(np.ptp(places)) or 1.0)
    low, high = float(places.min()) - room, float(places.max()) + room
    axis = {"range": [low, high], "tickangle": 0, "tickfont_size": 11}
    if logarithmic:
        return {**axis, "type": "log", "tickvals": round_numbers(low, high)}
    return {**axis, "nticks": 5, "zeroline": True, "zerolinecolor": GREY}


def _of_kind(kind: str, marks: Sequence[tuple[Mark, float]], rows: Sequence[str], legend: bool) -> go.Scatter:
    colour = KIND_COLOURS[kind]
    return go.Scatter(
        x=[value for _, value in marks],
        y=[rows.index(mark.of) for mark, _ in marks],
        mode="markers+text",
        text=[f"{value:.1f}" if mark.unit == "%" else f"{value:.3g}" for mark, value in marks],
        textposition="top center" if kind in (PUBLISHED, NOTED) else "bottom center",  # theirs and ours don't touch
        textfont={"size": 10, "color": colour},
        name=kind,
        legendgroup=kind,
        showlegend=legend,
        cliponaxis=False,
        marker={"symbol": SYMBOLS[kind], "size": 10, "color": colour, "line": {"width": 2, "color": colour}},
        hovertemplate=[hover(mark) for mark, _ in marks],
    )


def _scaled(marks: Sequence[Mark]) -> tuple[list[float], str]:
    """The values of a panel as they are drawn, and their unit."""
    if marks[0].unit != "bytes":
        return [mark.value for mark in marks], marks[0].unit
    unit = bytes_unit(marks)
    return [mark.value / UNIT_BYTES[unit] for mark in marks], unit
