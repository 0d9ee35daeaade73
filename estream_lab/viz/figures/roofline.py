"""What kernels reach between two measured ceilings: of memory, which feeds them weights, and of arithmetic."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from estream_lab.bench.peaks import READ
from estream_lab.viz.figures.theme import GREY, PANEL_TITLE, SEQUENCE, dress, provenance_line

SYMBOLS = {"int8": ("circle", "●"), "bf16": ("diamond", "◆"), "fp32": ("square", "■")}
OTHER = ("x", "✕")  # arithmetic that is none of these, or isn't told
AROUND = 1.6
"""How far the axes go beyond what is drawn, as a factor."""

Row = Mapping[str, Any]


def roofline(found: Mapping[str, Any]) -> go.Figure:
    """A panel for each layer shape of a `bench kernels` result.

    Across: multiply-adds for each byte of weights that the layer's routes ask for, counted once, in the form that the
    row multiplies by. Up: multiply-adds a second, in units of 10^9. Lines are ceilings that were measured in the same
    run: the slanted one bytes that come from memory, the level ones multiply-adds in registers, by arithmetic. Each
    mark is the median of one row at one number of tokens; a row's marks are joined, its colour is its implementation's,
    its symbol its arithmetic's.
    """
    shapes = list(dict.fromkeys(row["shape"] for row in found["rows"]))
    names = list(dict.fromkeys(row["implementation"] for row in found["rows"]))
    left, right = _span([row["macs_per_weight_byte"] for row in found["rows"]])
    figure = make_subplots(rows=1, cols=len(shapes), shared_yaxes=True, subplot_titles=shapes, horizontal_spacing=0.03)
    figure.update_annotations(font_size=13)
    for column, shape in enumerate(shapes, 1):
        for line in _roofs(found["peak"], left, right):
            figure.add_trace(line, row=1, col=column)
        for number, name in enumerate(names):
            rows = [row for row in found["rows"] if (row["shape"], row["implementation"]) == (shape, name)]
            for place, form in enumerate(dict.fromkeys(row["name"] for row in rows)):
                marks = _marks([row for row in rows if row["name"] == form], SEQUENCE[number % len(SEQUENCE)])
                figure.add_trace(marks.update(showlegend=column == 1 and place == 0), row=1, col=column)
    least = min(row["macs_per_second"] for row in found["rows"]) / 1e9
    most = max(*_arithmetic(found["peak"]).values(), *(row["macs_per_second"] / 1e9 for row in found["rows"]))
    figure.update_xaxes(type="log", range=[math.log10(left), math.log10(right)], dtick="D2")
    figure.update_xaxes(title_text="multiply-adds for each byte of weights")
    figure.update_yaxes(type="log", range=[math.log10(least / AROUND), math.log10(most * AROUND)], dtick="D2")
    figure.update_yaxes(title_text="GMAC/s", row=1, col=1)
    provenance = {
        "kind": found["kind"],
        "machine": found["machine"],
        "threads": found["threads"],
        "runs": found["rounds"],
        "note": "weights of the experts that have routes, each read once; ceilings measured in the same run",
    }
    symbols = dict.fromkeys(_symbol(row["arithmetic"]) for row in found["rows"])
    title = f"What kernels reach: {_list(names)}"
    return dress(figure, title, f"{provenance_line(provenance)} · {' '.join(symbols)}", 430, PANEL_TITLE)


def _symbol(arithmetic: str) -> str:
    return f"{SYMBOLS[arithmetic][1]} {arithmetic}" if arithmetic in SYMBOLS else f"{OTHER[1]} other"


def _span(values: Sequence[float]) -> tuple[float, float]:
    return min(values) / AROUND, max(values) * AROUND


def _arithmetic(peak: Mapping[str, float]) -> dict[str, float]:
    """GMAC/s in registers, by arithmetic."""
    return {kind: rate / 1e9 for kind, rate in peak.items() if kind != READ}


def _roofs(peak: Mapping[str, float], left: float, right: float) -> list[go.Scatter]:
    """Memory's line up to where it meets the highest ceiling, and each ceiling from where it meets memory's."""
    arithmetic, bandwidth = _arithmetic(peak), peak[READ] / 1e9  # GMAC/s, GB/s
    end = min(right, max(arithmetic.values()) / bandwidth)
    lines = [_roof([left, end], [left * bandwidth, end * bandwidth], f"memory, {bandwidth:.0f} GB/s", "bottom right")]
    for kind, rate in arithmetic.items():
        start = max(left, rate / bandwidth)
        lines.append(_roof([start, right], [rate, rate], f"{kind}, {rate:.0f} GMAC/s", "top left"))
    return lines


def _roof(x: list[float], y: list[float], name: str, position: str) -> go.Scatter:
    """A ceiling with its name at one end: memory's at the lower, the others at the right."""
    where = 0 if position == "bottom right" else 1
    return go.Scatter(
        x=x,
        y=y,
        mode="lines+text",
        text=[name if i == where else "" for i in range(2)],
        textposition=position,
        textfont={"color": GREY, "size": 12},
        line={"color": GREY, "width": 1.5},
        hovertemplate=f"measured ceiling: {name}<extra></extra>",
        name=name,
        showlegend=False,
    )


def _marks(rows: Sequence[Row], colour: str) -> go.Scatter:
    """One row at all its numbers of tokens."""
    rows = sorted(rows, key=lambda row: int(row["tokens"]))
    first = rows[0]
    return go.Scatter(
        x=[row["macs_per_weight_byte"] for row in rows],
        y=[row["macs_per_second"] / 1e9 for row in rows],
        customdata=[
            [row["tokens"], row["quant"], row["arithmetic"], 1e3 * row["seconds_median"], _share(row)] for row in rows
        ],
        mode="lines+markers",
        name=first["implementation"],
        legendgroup=first["implementation"],
        marker={"symbol": SYMBOLS.get(first["arithmetic"], OTHER)[0], "size": 9, "color": colour},
        line={"color": colour, "width": 1},
        opacity=0.9,
        hovertemplate=f"measured: {first['implementation']} {first['name']}, %{{customdata[0]}} tokens<br>%{{y:.1f}} "
        "GMAC/s%{customdata[4]}, %{customdata[3]:.2f} ms<br>weights %{customdata[1]}, products %{customdata[2]}"
        "<extra></extra>",
    )


def _share(row: Row) -> str:
    """Of the ceiling of its arithmetic, where that was measured."""
    fraction = row["fraction_of_peak"]
    return "" if fraction is None else f" ({100 * fraction:.0f} % of its ceiling)"


def _list(names: Sequence[str]) -> str:
    """Names as a sentence has them; ours are what this package is called."""
    told = ["this package" if name == "estream" else name for name in names]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"
