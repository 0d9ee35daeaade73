"""VTCM by lifetime: where its regions lie, to scale, and when each holds a value that is still needed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from estream_lab.experts.order_steps import positions
from estream_lab.kernels.vtcm import CONSTANTS, Region, Step, TilePlan
from estream_lab.trace import Provenance
from estream_lab.viz.figures.lifetimes import Lifetime, lifetimes
from estream_lab.viz.figures.step_diagram import KINDS as STEPS
from estream_lab.viz.figures.step_diagram import stepped
from estream_lab.viz.figures.theme import COLOURS, GREY, dressing, faded, key, mebibytes, provenance_line

FILLED_BY = {
    "activations": "gather",
    "swiglu": "swiglu",
    "decoded": "decode",
    "output": "matmul",
    "compressed": "fetch",
}
"""Kinds of regions, and the kind of step that writes each."""

NEVER = faded(GREY, 0.45)
"""Of a region that no step writes."""

KINDS = {kind: (STEPS[step], faded(STEPS[step], 0.55)) for kind, step in FILLED_BY.items()}
KINDS |= {"constant": (NEVER, NEVER)}
"""Kinds of regions: the colours of their first, third, … and of their second, fourth, … value."""

LIMIT = COLOURS["wait"]
"""Of a region that does not fit."""

REGION_ROW = 25  # px
MOST_PLACES = 48
"""Places that are drawn at a time."""

SPACE = "\u2002"
"""Between a label and its row."""

MARGIN = {"l": 190, "r": 24}
"""Room for the names and sizes of regions, in px."""

MEMORY, TIME = (0.0, 0.3), (0.38, 1.0)
"""Where the two panels lie across."""

PANELS = "left: bytes to scale, and the capacity as a line · right: when a region holds a value that is still needed"


def kind_of(region: str) -> str:
    """The kind of a region: its name without a number, or that it is constant."""
    return "constant" if region in CONSTANTS else region.rstrip("0123456789")


def vtcm_map(plan: TilePlan, found: Sequence[Step], provenance: Provenance, first: int = 0) -> go.Figure:
    """Regions of a plan in order of their bytes, and the values that these steps keep in them, place by place.

    A value changes its shade where the next one begins. At most `MOST_PLACES` places are drawn, from `first` on.
    """
    places = positions(found)
    last = max(places, default=-1) + 1
    shown = min(MOST_PLACES, last - first)
    lives = lifetimes(found, places)
    part = "" if shown == last else f"places {first} to {first + shown - 1} of {last} are drawn · "
    lines = [
        provenance_line(provenance),
        f"{part}order, not time: every step takes one place · a new shade is a new value",
        f"in the mean over places, {busy_share(plan, lives, last):.0%} of the plan's bytes hold one",
        PANELS,
        f"filled by {key({step: STEPS[step] for step in FILLED_BY.values()} | {'no step': NEVER})}",
    ]
    title = f"VTCM by lifetime: {mebibytes(plan.used_bytes)} of {mebibytes(plan.vtcm_bytes)}"
    layout = dressing(title, "<br>".join(lines), REGION_ROW * len(plan.regions))
    data = [*region_traces(plan, plan.vtcm_bytes), *life_traces(plan.regions, lives, first, shown)]
    layout |= map_axes(plan, plan.vtcm_bytes, first, shown) | {"showlegend": False}
    layout["margin"] |= MARGIN
    layout["xaxis2"]["title"] = {"text": "place in the order (no time)"}
    return go.Figure({"data": data, "layout": layout})


def busy_share(plan: TilePlan, lives: Sequence[Lifetime], places: int) -> float:
    """Of the plan's bytes, the share whose region holds a value that is still needed, in the mean over places."""
    sizes = {region.name: region.bytes for region in plan.regions}
    constant = sum(sizes[name] for name in CONSTANTS)
    held = sum(sizes[life.region] * (life.end - life.start) for life in lives)
    return (constant + held / places) / sum(sizes.values()) if places else 0.0


def region_traces(plan: TilePlan, capacity: int) -> list[dict[str, Any]]:
    """Two traces on the first axes: a bar for each region, red where it does not fit, and the capacity as a line."""
    regions, count = plan.regions, len(plan.regions)
    colours = [LIMIT if region.end > capacity else KINDS[kind_of(region.name)][0] for region in regions]
    return [
        {
            "type": "bar",
            "orientation": "h",
            "y": list(range(count)),
            "base": [region.offset / 2**20 for region in regions],
            "x": [region.bytes / 2**20 for region in regions],
            "width": 0.8,
            "marker": {"color": colours, "line": {"color": colours, "width": 1}},
            "customdata": [f"{r.name}: bytes {r.offset:,} to {r.end - 1:,}, {r.bytes:,}" for r in regions],
            "hovertemplate": "%{customdata}<extra></extra>",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "x": [capacity / 2**20] * 2,
            "y": [-0.5, count - 0.5],
            "line": {"color": GREY, "width": 2, "dash": "dash"},
            "hovertemplate": f"capacity: {capacity:,} bytes<extra></extra>",
        },
    ]


def life_traces(regions: Sequence[Region], lives: Sequence[Lifetime], first: int, shown: int) -> list[dict[str, Any]]:
    """One trace on the second x axis: a row for each region, a column for each place."""
    row_of = {region.name: row for row, region in enumerate(regions)}
    shades = list(KINDS)
    z = np.full((len(regions), max(shown, 1)), np.nan)
    names = [["" for _ in range(shown)] for _ in regions]  # short: a live figure sends them with every move
    for name in CONSTANTS:
        z[row_of[name]] = 2 * shades.index("constant") + 0.5
        names[row_of[name]] = ["always"] * shown
    for life in lives:
        start, end = max(life.start, first) - first, min(life.end, first + shown) - first
        if start >= end:
            continue
        row = row_of[life.region]
        z[row, start:end] = 2 * shades.index(kind_of(life.region)) + life.number % 2 + 0.5
        names[row][start:end] = [life.panel] * (end - start)
    return [
        {
            "type": "heatmap",
            "x0": first,
            "dx": 1,
            "z": z if shown else z * np.nan,
            "zmin": 0,
            "zmax": 2 * len(shades),
            "colorscale": stepped([colour for pair in KINDS.values() for colour in pair]),
            "showscale": False,
            "ygap": 5,
            "customdata": names,
            "hoverongaps": False,
            "hovertemplate": "place %{x}: %{customdata}<extra></extra>",
            "xaxis": "x2",
            "yaxis": "y",
        }
    ]


def map_axes(plan: TilePlan, capacity: int, first: int, shown: int) -> dict[str, Any]:
    """Axes of both panels: x in MiB, x2 in places, and y with a row for each region, the lowest bytes on top."""
    most = max(capacity, plan.used_bytes) / 2**20
    labels = [f"{region.name}  {mebibytes(region.bytes)}{SPACE}" for region in plan.regions]
    plain = {"showgrid": False, "automargin": False}
    return {
        "xaxis": {**plain, "domain": MEMORY, "range": [0, 1.03 * most], "title": {"text": "MiB"}, "nticks": 5},
        "xaxis2": {
            **plain, "domain": TIME, "range": [first - 0.5, first + max(shown, 1) - 0.5], "anchor": "y", "nticks": 8,
        },
        "yaxis": {
            **plain, "range": [len(labels) - 0.5, -0.5], "tickvals": list(range(len(labels))), "ticktext": labels,
            "ticks": "",
        },
    }  # fmt: skip
