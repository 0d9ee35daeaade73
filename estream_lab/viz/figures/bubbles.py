"""Where the bubbles are: idle stretches of storage and of compute, by what they waited for."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from estream_lab.trace import Trace, npu_idle, storage_idle
from estream_lab.trace.bubbles import (
    BANK,
    CAUSES,
    CHOICE,
    DATA,
    DONE,
    LAYER,
    OWN,
    ROUTES,
    UNNEEDED,
    Bubble,
    bubble_shares,
    bubbles,
)
from estream_lab.trace.tracks import origin_ns
from estream_lab.viz.figures.theme import CLEAR, COLOURS, GREY, SEQUENCE, common_line, dress, milliseconds

CAUSE_COLOURS = {
    LAYER: COLOURS["other"],
    ROUTES: COLOURS["wait"],
    BANK: COLOURS["storage"],
    CHOICE: SEQUENCE[5],
    DATA: COLOURS["expert"],
    UNNEEDED: "#c9566b",
    DONE: GREY,
    OWN: COLOURS["dense"],
}
BUSY = {
    "reads": "rgba(128,128,128,0.45)",
    "experts": "rgba(128,128,128,0.62)",
    "non-expert work": "rgba(128,128,128,0.30)",
}
"""What is no bubble steps back."""

ROW, WIDTH = 24, 0.9  # px, and of a bar in rows
PAIR = 2.35  # rows from one trace's storage to the next one's: the two of a trace lie together


class Piece(NamedTuple):
    """A bar of a row: work by its kind or a bubble by its cause; times in ms since the request's start."""

    kind: str
    row: float
    start: float
    duration: float
    text: str


def bubble_timeline(traces: Mapping[str, Trace]) -> go.Figure:
    """Two rows a labelled trace, storage and compute, on one time axis: work in grey, bubbles in their cause's colour.

    Raises `EStreamError` for a trace without bubbles (`trace.bubbles.bubbles`).
    """
    rows = [f"{label}, {unit}" if label else unit for label in traces for unit in ("storage", "compute")]
    figure = go.Figure()
    every = [
        piece
        for number, (label, trace) in enumerate(traces.items())
        for piece in pieces(trace, bubbles(trace), PAIR * number, label)
    ]
    for kind in (*BUSY, *CAUSES):
        figure.add_trace(_bars(kind, [piece for piece in every if piece.kind == kind]))
    for number, trace in enumerate(traces.values()):
        end = trace.request_ns / 1e6
        note = {"xanchor": "left", "showarrow": False, "xshift": 6, "font_size": 12}
        figure.add_annotation(x=end, y=PAIR * number, text=f"idle {storage_idle(trace):.0%}", **note)
        figure.add_annotation(x=end, y=PAIR * number + 1, text=f"idle {npu_idle(trace):.0%}", **note)
    figure.update_xaxes(title_text="ms since the request's start", rangemode="tozero", ticks="")
    places = [PAIR * (number // 2) + number % 2 for number in range(len(rows))]
    figure.update_yaxes(tickvals=places, ticktext=rows, range=[places[-1] + 0.6, -0.6], showgrid=False, ticks="")
    height = round(ROW * PAIR * len(traces)) + 30
    dress(figure, "Bubbles, by what they waited for", common_line(list(traces.values())), height)
    return figure.update_layout(legend_traceorder="normal")


def pieces(trace: Trace, found: Sequence[Bubble], row: float = 0.0, label: str = "") -> Iterator[Piece]:
    """The storage row of a trace, ``row``, and its compute row, 1 more: its work, and then its bubbles ``found``."""
    origin = origin_ns(trace.spans)
    for begin, end in _together([(span.start_ns, span.end_ns) for span in trace.select("storage")]):
        yield Piece("reads", row, (begin - origin) / 1e6, (end - begin) / 1e6, "reads")
    for unit, kind in (("expert", "experts"), ("dense", "non-expert work")):
        for span in trace.select(unit):
            start, duration = (span.start_ns - origin) / 1e6, span.duration_ns / 1e6
            name = span.name if span.layer is None else f"{span.name}, layer {span.layer}"
            yield Piece(kind, row + 1, start, duration, name)
    for each in found:
        text = f"<b>{each.cause}</b><br>{CAUSES[each.cause]}<br>{milliseconds(each.duration_ns)}"
        where = row + (each.unit == "compute")
        text += f"<br>{label}, {each.unit}" if label else f"<br>{each.unit}"
        yield Piece(each.cause, where, (each.start_ns - origin) / 1e6, each.duration_ns / 1e6, text)


def bubble_bars(traces: Mapping[str, Trace]) -> go.Figure:
    """Storage idle and compute idle of each labelled trace, stacked by cause, in per cent of its requests' time."""
    found = {label: bubble_shares(trace) for label, trace in traces.items()}
    units = ("storage", "compute")
    rows = [f"{label}, {unit}" for label in traces for unit in units]
    figure = go.Figure()
    for cause in CAUSES:
        shares = [100 * found[label][unit].get(cause, 0.0) for label in traces for unit in units]
        if not any(shares):
            continue
        figure.add_bar(
            y=rows,
            x=shares,
            orientation="h",
            name=cause,
            marker=_marker(cause),
            customdata=[CAUSES[cause]] * len(rows),
            hovertemplate="%{y}<br><b>" + cause + "</b> %{x:.1f} %<br>%{customdata}<extra></extra>",
        )
    totals = [100 * sum(found[label][unit].values()) for label in traces for unit in units]
    for row, total in zip(rows, totals, strict=True):
        figure.add_annotation(x=total, y=row, text=f"{total:.1f} %", xanchor="left", showarrow=False, xshift=6)
    figure.update_xaxes(title_text="share of the request, %", range=[0, max([*totals, 1.0]) * 1.12])
    figure.update_yaxes(autorange="reversed", showgrid=False, ticks="")
    dress(figure, "Idle time, by what it waited for", common_line(list(traces.values())), 40 + ROW * len(rows))
    return figure.update_layout(barmode="stack", legend_traceorder="normal")


def _bars(kind: str, found: Sequence[Piece]) -> go.Bar:
    return go.Bar(
        orientation="h",
        name=kind,
        x=[piece.duration for piece in found],
        base=[piece.start for piece in found],
        y=[piece.row for piece in found],
        width=WIDTH,
        customdata=[piece.text for piece in found],
        hovertemplate="%{customdata}<extra></extra>",
        marker={"color": BUSY[kind]} if kind in BUSY else _marker(kind),
        showlegend=bool(found),
    )


def _marker(cause: str) -> dict[str, Any]:
    colour = CAUSE_COLOURS[cause]
    if cause == DONE:  # nothing is missed
        pattern = {"shape": "/", "fgcolor": colour, "size": 5, "solidity": 0.25}
        return {"color": CLEAR, "line": {"color": colour, "width": 0.6}, "pattern": pattern}
    return {"color": colour, "line": {"width": 0}}


def _together(intervals: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of intervals, as those of it that don't touch."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined
