"""The bank timeline: who worked when, and what each bank held."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from estream_lab.trace import UNITS, Span, Trace, assign_tracks, npu_idle, storage_idle
from estream_lab.trace.tracks import origin_ns
from estream_lab.viz.figures.banks import bank_states
from estream_lab.viz.figures.theme import CLEAR, COLOURS, common_line, dress, mebibytes, milliseconds

KINDS = {
    "dense": ("non-expert work", COLOURS["dense"]),
    "expert": ("experts", COLOURS["expert"]),
    "wait": ("waiting for data", COLOURS["wait"]),
    "storage": ("reads", COLOURS["storage"]),
    "ready": ("bank ready", COLOURS["ready"]),
    "other": ("other units", COLOURS["other"]),
}
"""Every subplot has one bar trace a kind, in this order, empty or not: a live figure can be updated in place."""

BANK_KINDS = {"filling": "storage", "ready": "ready", "in use": "expert"}

ROW = 25  # px
BAND = "rgba(128,128,128,0.10)"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a row: times in ms from the request's start."""

    kind: str
    row: str
    start: float
    duration: float
    text: str


def timeline(traces: Trace | Mapping[str, Trace]) -> go.Figure:
    """One trace, or several under their labels as subplots of one time axis.

    Rows from the top: non-expert work; the experts' executor with its waits; the reads, each overlapping one on a row
    of its own; units of a finer trace; then a row for each bank: filling, ready, in use. Times are ms since the
    request's start, or steps where the trace numbers steps without time.
    """
    labelled = {"": traces} if isinstance(traces, Trace) else dict(traces)
    charts = [(heading(label, trace), trace, list(_bars(trace))) for label, trace in labelled.items()]
    rows = [_rows(bars) for _, _, bars in charts]
    figure = make_subplots(
        rows=len(charts),
        cols=1,
        shared_xaxes=True,
        subplot_titles=[title for title, _, _ in charts],
        row_heights=[len(names) for names in rows],
        vertical_spacing=min(0.09, 0.9 / len(charts)) if len(charts) > 1 else 0,
    )
    figure.update_annotations(x=0, xanchor="left", font_size=13, yshift=12)
    longest = max((bar.start + bar.duration for _, _, bars in charts for bar in bars), default=0.0)
    shown: set[str] = set()
    for number, ((_, trace, bars), names) in enumerate(zip(charts, rows, strict=True), 1):
        _draw(figure, number, bars, names, shown)
        _mark_layers(figure, number, trace, longest)
    unit = "step" if _steps(labelled) else "ms since the request's start"
    figure.update_xaxes(rangemode="tozero", ticks="")
    figure.update_xaxes(title_text=unit, row=len(charts), col=1)
    height = ROW * sum(len(names) for names in rows) + 62 * (len(charts) - 1) + 20
    dress(figure, "Bank timeline", common_line(list(labelled.values())), height)
    return figure.update_layout(margin_t=figure.layout.margin.t + 26, height=figure.layout.height + 26, bargap=0.12)


def heading(label: str, trace: Trace) -> str:
    """The label with the trace's time and idle shares, as a subplot's title."""
    bold = f"<b>{label}</b>  " if label else ""
    if _steps({label: trace}):
        return f"{bold}steps in order, without time"
    if not trace.request_ns:
        return f"{bold}nothing recorded"
    idle = f"storage idle {storage_idle(trace):.1%} · compute idle {npu_idle(trace):.1%}"
    return f"{bold}{milliseconds(trace.request_ns)} · {idle}"


def _steps(traces: Mapping[str, Trace]) -> bool:
    return any(span.clock == "order" for trace in traces.values() for span in trace.spans)


def _bars(trace: Trace) -> Iterator[Bar]:
    """All bars in the order of their rows, top to bottom."""
    scale = 1.0 if _steps({"": trace}) else 1e-6
    origin = origin_ns(trace.spans)

    def bar(kind: str, row: str, span: Span, text: str | None = None) -> Bar:
        return Bar(
            kind, row, (span.start_ns - origin) * scale, span.duration_ns * scale, text or describe(span, origin)
        )

    yield from (bar("dense", "non-expert", span) for span in trace.select("dense"))
    for kind in ("expert", "wait"):
        yield from (bar(kind, "experts", span) for span in trace.select(kind))
    finer = [unit for unit in dict.fromkeys(span.unit for span in trace.spans) if unit not in UNITS]
    for unit, name in [("storage", "reads"), *((unit, unit) for unit in sorted(finer))]:
        spans = trace.select(unit)
        for track, span in sorted(zip(assign_tracks(spans), spans, strict=True), key=lambda pair: pair[0]):
            row = name if track == 0 else f"{name} {track + 1}"
            yield bar("storage" if unit == "storage" else "other", row, span)
    for state in bank_states(trace):
        kind = BANK_KINDS[state.name]
        yield bar(kind, f"bank {state.bank}", state, f"bank {state.bank} {state.name}<br>{describe(state, origin)}")


def describe(span: Span, origin: int) -> str:
    """A span for the pointer: what it is, where, how much, when."""
    where = ", ".join(f"{name} {value}" for name, value in span.details().items() if name not in ("rows", "bytes"))
    lines = [f"<b>{span.name}</b>", where]
    if span.rows is not None:
        lines.append(f"{span.rows} rows")
    if span.clock == "order":
        return "<br>".join([*filter(None, lines), f"step {span.start_ns - origin}"])
    if span.bytes is not None:
        rate = f", {span.bytes / span.duration_ns:.2f} GB/s" if span.duration_ns else ""
        lines.append(f"{mebibytes(span.bytes)}{rate}")
    lines.append(f"{span.duration_ns / 1e6:.3f} ms from {(span.start_ns - origin) / 1e6:.3f} ms")
    return "<br>".join(filter(None, lines))


def _rows(bars: list[Bar]) -> list[str]:
    return list(dict.fromkeys(bar.row for bar in bars)) or ["nothing recorded"]


def _draw(figure: go.Figure, number: int, bars: list[Bar], rows: list[str], shown: set[str]) -> None:
    """Add the bars of one subplot, a trace a kind; a kind enters the legend once."""
    for kind, (name, colour) in KINDS.items():
        mine = [bar for bar in bars if bar.kind == kind]
        figure.add_bar(
            x=[bar.duration for bar in mine],
            base=[bar.start for bar in mine],
            y=[rows.index(bar.row) for bar in mine],
            customdata=[bar.text for bar in mine],
            orientation="h",
            name=name,
            legendgroup=kind,
            showlegend=bool(mine) and kind not in shown,
            marker=_marker(kind, colour),
            hovertemplate="%{customdata}<extra></extra>",
            row=number,
            col=1,
        )
        if mine:
            shown.add(kind)
    figure.update_yaxes(
        tickvals=list(range(len(rows))),
        ticktext=rows,
        range=[len(rows) - 0.5, -0.5],
        showgrid=False,
        ticks="",
        row=number,
        col=1,
    )


def _marker(kind: str, colour: str) -> dict[str, object]:
    line = {"color": colour, "width": 0.6}  # keeps the shortest spans visible
    if kind == "wait":  # nothing happens then: hatched, not filled
        return {"color": CLEAR, "line": line, "pattern": {"shape": "/", "fgcolor": colour, "size": 5, "solidity": 0.25}}
    return {"color": colour, "line": line}


def _mark_layers(figure: go.Figure, number: int, trace: Trace, span: float) -> None:
    """A faint band behind every other layer, and the layers' numbers above where they fit; `span` is the axis's."""
    suffix = "" if number == 1 else str(number)
    at = {"xref": f"x{suffix}", "yref": f"y{suffix} domain"}
    for position, (layer, start, end) in enumerate(layer_windows(trace)):
        if position % 2 == 0:
            band = {"type": "rect", "fillcolor": BAND, "line_width": 0, "layer": "below"}
            figure.add_shape(x0=start, x1=end, y0=0, y1=1, **band, **at)
        room = (end - start) / span if span else 0
        if room < 0.025:
            continue
        text = f"layer {layer}" if room > 0.075 else str(layer)
        label = {"showarrow": False, "xanchor": "left", "yanchor": "bottom", "font_size": 11}
        figure.add_annotation(x=start, y=1, text=text, **label, **at)


def layer_windows(trace: Trace) -> list[tuple[int, float, float]]:
    """(layer, start, end) of each pass through a layer, in ms (or steps) since the request's start.

    A pass begins with the layer's first dense span; the last one ends where work without a layer or the trace ends.
    """
    scale = 1.0 if _steps({"": trace}) else 1e-6
    origin = origin_ns(trace.spans)
    passes: list[tuple[int, int]] = []
    for span in trace.select("dense"):
        if span.layer is not None and (not passes or passes[-1][0] != span.layer):
            passes.append((span.layer, span.start_ns))
    if not passes:
        return []
    after = [s.start_ns for s in trace.select("dense") if s.layer is None and s.start_ns > passes[-1][1]]
    ends = [start for _, start in passes[1:]] + [min(after, default=max(span.end_ns for span in trace.spans))]
    return [
        (layer, (start - origin) * scale, (end - origin) * scale)
        for (layer, start), end in zip(passes, ends, strict=True)
    ]
