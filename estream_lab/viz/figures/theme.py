"""One look for all figures, readable on light and on dark pages."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from estream_lab.trace import Provenance, Trace

GREY = "#797979"
"""Equally far from white and from JupyterLab's dark page: contrast 4.4 on both."""

FAINT = "rgba(128,128,128,0.22)"
CLEAR = "rgba(0,0,0,0)"

# Okabe and Ito's palette, in tones that keep their distance from white and from black
COLOURS = {
    "storage": "#3a97d0",
    "expert": "#e69f00",
    "dense": "#3aa98a",
    "wait": "#d55e00",
    "ready": "rgba(230,159,0,0.28)",
    "other": "#b07aa8",
}
SEQUENCE = ("#3a97d0", "#e69f00", "#3aa98a", "#b07aa8", "#d55e00", "#8a8f3c", "#8c8c8c")

REMOVED = ("sendChartToCloud", "select2d", "lasso2d", "autoScale2d")
"""Buttons that figures do without: the first would send the reader's data to plotly's server."""

AXIS = {
    "gridcolor": FAINT,
    "linecolor": GREY,
    "zeroline": False,
    "ticks": "outside",
    "tickcolor": FAINT,
    "title": {"font": {"size": 13}},
    "automargin": True,
}

TEMPLATE = go.layout.Template(
    layout={
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"color": GREY, "size": 13, "family": "system-ui, 'Helvetica Neue', Arial, sans-serif"},
        "colorway": SEQUENCE,
        "xaxis": AXIS,
        "yaxis": AXIS,
        "title": {
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "yref": "container",
            "y": 1,
            "yanchor": "top",
            "pad": {"t": 10},
            "font": {"size": 17},
            "subtitle": {"font": {"size": 12, "color": GREY}},
        },
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "yref": "container",
            "y": 0,
            "yanchor": "bottom",
            "bgcolor": CLEAR,
        },
        "modebar": {"bgcolor": CLEAR, "color": GREY, "activecolor": COLOURS["expert"], "remove": REMOVED},
        "margin": {"l": 70, "r": 24},
        "barmode": "overlay",
        "bargap": 0.25,
    }
)

INK = "#14181c"
"""Text on a light fill, in either theme."""

LINE, LINE_PX = 112, 16
"""Characters of a subtitle line (plotly does not wrap), and its height."""


def provenance_line(provenance: Provenance) -> str:
    """Where a figure's data comes from, as its subtitle: kind, lane, machine, settings, declared read bandwidth.

    `<br>` separates lines. Data that does not say where it comes from is shown as of unstated origin.
    """
    get = provenance.get
    parts = [str(get("kind", "origin not stated"))]
    for key, form in (("lane", "{} lane"), ("machine", "{}"), ("model", "{}"), ("schedule", "{}")):
        if get(key):
            parts.append(form.format(get(key)))
    settings = [f"{symbol}={get(key)}" for symbol, key in SETTINGS if key in provenance]
    if settings:
        parts.append(" ".join(settings))
    for key, form in FORMS:
        if get(key):
            parts.append(form.format(get(key)))
    for key, form in (("seed", "seed {}"), ("note", "{}")):
        if key in provenance:
            parts.append(form.format(get(key)))
    if get("runs"):
        parts.append(f"median of {get('runs')} runs")
    limit = float(get("read_bandwidth_bytes_per_second", 0))
    if limit:
        parts.append(f"reads limited to {limit / 1e6:g} MB/s (declared)")
    return wrap(parts)


FORMS = (
    ("tokens", "{} tokens"),
    ("threads", "{} threads"),
    ("layout", "{}"),
    ("dense_quant", "dense {}"),
    ("numerics_profile", "{}"),
)
SETTINGS = (("G", "group_size"), ("B", "banks"), ("Q", "queue_depth"))


def shared(provenances: Sequence[Provenance]) -> Provenance:
    """What all of several runs have in common: the subtitle of a figure that compares them."""
    first, *others = provenances
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def common_line(traces: Sequence[Trace]) -> str:
    """The subtitle of a figure that compares runs: what they all have in common."""
    return provenance_line(shared([trace.provenance for trace in traces]))


def wrap(parts: list[str]) -> str:
    """The parts joined by dots, broken between parts into lines of a figure's width."""
    lines = [""]
    for part in parts:
        clean = part.replace("&", "&amp;").replace("<", "&lt;")  # plotly reads a few tags in text
        if lines[-1] and len(lines[-1]) + len(clean) > LINE:
            lines.append("")
        lines[-1] += f" · {clean}" if lines[-1] else clean
    return "<br>".join(lines)


PANEL_TITLE = 24
"""Room above the plot for the titles of panels, in px."""


def dress(figure: go.Figure, title: str, subtitle: str, height: int, room: int = 0) -> go.Figure:
    """Give a figure the template, a title and its provenance below it.

    `height` is that of the plot itself, in px, `room` what is left free above it. A legend goes to the bottom.
    """
    legend = any(trace.name and trace.showlegend is not False for trace in figure.data)
    return figure.update_layout(dressing(title, subtitle, height, room, legend))


def dressing(title: str, subtitle: str, height: int, room: int = 0, legend: bool = False) -> dict[str, Any]:
    """The layout that `dress` gives, as plain values."""
    top, bottom = head_px(subtitle) + room, 100 if legend else 60
    return {
        "template": TEMPLATE,
        "title": {"text": title, "subtitle": {"text": subtitle}},
        "height": height + top + bottom,
        "margin": {"t": top, "b": bottom},
    }


def two_panels(left: str, right: str) -> go.Figure:
    """Two panels side by side, each with its title above its left edge."""
    figure = make_subplots(rows=1, cols=2, subplot_titles=[left, right], horizontal_spacing=0.1)
    figure.update_annotations(xanchor="left", font_size=13)
    for annotation, x in zip(figure.layout.annotations, (0, 0.55), strict=True):
        annotation.x = x
    return figure


def head_px(subtitle: str) -> int:
    """Height of a title and its subtitle, in px."""
    return 46 + LINE_PX * (subtitle.count("<br>") + 1)


def key(colours: Mapping[str, str]) -> str:
    """A legend in one line of text: it costs a live figure nothing, where plotly's own is drawn anew at each change."""
    return "  ".join(f'<span style="color:{colour}">■</span> {name}' for name, colour in colours.items())


def faded(colour: str, share: float) -> str:
    """A colour `#rrggbb` of which only this share, from 0 to 1, is there: the page shows through."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share:g})"


def milliseconds(ns: int) -> str:
    """A time for people."""
    return f"{ns / 1e6:.1f} ms"


def mebibytes(count: float) -> str:
    """A size for people, in binary units."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if abs(size) < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
