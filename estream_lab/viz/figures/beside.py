"""Values beside each other: a panel a quantity, a row for whose they are, a symbol for how they came about."""

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from estream_lab.errors import EStreamError
from estream_lab.trace import Provenance
from estream_lab.tuning.paper.marks import KINDS, Mark, by_quantity
from estream_lab.viz.figures.kinds import KIND_COLOURS, SYMBOLS, hover, told
from estream_lab.viz.figures.theme import FAINT, PANEL_TITLE, dress, provenance_line

ROW = 30  # px


def beside(marks: Sequence[Mark], title: str, provenance: Provenance, *, logarithmic: bool = False) -> go.Figure:
    """Marks in rows by whose they are, in panels by quantity, with their values above them; bytes are shown in GiB.

    Raises:
        EStreamError: no marks.
    """
    if not marks:
        raise EStreamError("there are no values to put beside each other: give some")
    panels = by_quantity(marks)
    rows = list(dict.fromkeys(mark.of for mark in marks))
    names = [f"{quantity}, {_unit(group[0])}" for quantity, group in panels.items()]
    figure = make_subplots(rows=1, cols=len(panels), shared_yaxes=True, subplot_titles=names, horizontal_spacing=0.04)
    figure.update_annotations(font_size=13)
    shown: set[str] = set()
    for column, group in enumerate(panels.values(), 1):
        for kind in KINDS:
            chosen = [mark for mark in group if mark.kind == kind]
            if chosen:
                figure.add_trace(_of_kind(kind, chosen, rows, kind not in shown), row=1, col=column)
                shown.add(kind)
    figure.update_yaxes(
        tickvals=list(range(len(rows))), ticktext=rows, range=[len(rows) - 0.5, -0.7], ticks="", gridcolor=FAINT
    )
    scale = {"type": "log", "dtick": "D2"} if logarithmic else {"rangemode": "tozero"}
    figure.update_xaxes(tickangle=0, nticks=5, tickfont_size=11, **scale)
    return dress(figure, title, provenance_line(provenance), ROW * len(rows) + 20, PANEL_TITLE)


def _of_kind(kind: str, marks: Sequence[Mark], rows: Sequence[str], legend: bool) -> go.Scatter:
    return go.Scatter(
        x=[_shown(mark) for mark in marks],
        y=[rows.index(mark.of) for mark in marks],
        mode="markers+text",
        text=[told(mark).split(" ")[0] for mark in marks],
        textposition="top center",
        textfont={"size": 10, "color": KIND_COLOURS[kind]},
        name=kind,
        legendgroup=kind,
        showlegend=legend,
        cliponaxis=False,
        marker={"symbol": SYMBOLS[kind], "size": 10, "color": KIND_COLOURS[kind], "line": {"width": 2}},
        hovertemplate=[hover(mark) for mark in marks],
    )


def _unit(mark: Mark) -> str:
    return "GiB" if mark.unit == "bytes" else mark.unit


def _shown(mark: Mark) -> float:
    return mark.value / 2**30 if mark.unit == "bytes" else mark.value
