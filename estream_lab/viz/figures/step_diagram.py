"""The steps of one slot on three units in order, without time: who runs what beside whom, and who waits for whom."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go

from estream_lab.experts.order_steps import STEP_UNITS, positions
from estream_lab.kernels.vtcm import Step
from estream_lab.trace import Provenance, Span, Trace
from estream_lab.viz.figures.lifetimes import panel_name
from estream_lab.viz.figures.theme import GREY, INK, SEQUENCE, dressing, key, provenance_line

KINDS = {
    "fetch": SEQUENCE[0],
    "gather": SEQUENCE[5],
    "decode": SEQUENCE[1],
    "matmul": SEQUENCE[2],
    "swiglu": SEQUENCE[3],
    "scatter": SEQUENCE[6],
}
"""Kinds of steps and their colours."""

UNIT_ROW = 40  # px
MOST_PLACES = 36
"""Places of a static diagram: more leave no room for the names of panels."""

WAIT_WIDTH, WAIT_HEIGHT = 1 / 600, 1 / 32
"""Thickness of a wait's line, as a share of the diagram's width and of a row: about a pixel."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A step at its place in the order: what it is, and the places and units of the steps that it waits for."""

    unit: str
    kind: str
    place: int
    name: str
    told: str
    waits: tuple[tuple[str, int], ...] = ()


def placed(found: Sequence[Step]) -> tuple[Placed, ...]:
    """Steps of one slot, each as early as its unit and its waits allow if every step takes one place."""
    places = positions(found)
    return tuple(
        Placed(
            step.unit,
            step.kind,
            place,
            panel_name(step),
            _told(step),
            tuple((found[wait].unit, places[wait]) for wait in step.waits),
        )
        for step, place in zip(found, places, strict=True)
    )


def recorded(trace: Trace, layer: int, slot: int, visit: int = 0) -> tuple[Placed, ...]:
    """The steps of one visit of a slot as a run with `record_steps` recorded them; a trace has no waits.

    A layer visits a slot again when another group is in its bank, when more than C of its routes are cut into several
    invocations, and for every chunk of a long prompt. `visit` counts through all of these; past the last one there are
    no steps.
    """
    spans = [span for span in trace.spans if span.clock == "order" and (span.layer, span.slot) == (layer, slot)]
    starts = [*_starts(spans), math.inf]
    if not 0 <= visit < len(starts) - 1:
        return ()
    first, end = starts[visit : visit + 2]
    mine = [span for span in spans if first <= span.start_ns < end]
    gathers = sorted(span.start_ns for span in mine if span.name == "gather")
    return tuple(
        _of_span(span, int(first), gathers.index(span.start_ns) if span.tile is None else span.tile) for span in mine
    )


def _starts(spans: Sequence[Span]) -> list[int]:
    """Where each visit starts: only there do a fetch and a gather share a place, as nothing is before them.

    The gather of a later row tile stands behind the decode that needs the fetch before it.
    """
    fetches = {span.start_ns for span in spans if span.name.startswith("fetch")}
    return sorted(span.start_ns for span in spans if span.name == "gather" and span.start_ns in fetches)


def step_diagram(found: Sequence[Placed], provenance: Provenance, first: int = 0) -> go.Figure:
    """Three rows, one for each unit; a column is a place in the order, not a time. At most `MOST_PLACES` are drawn.

    Args:
        found: `placed` or `recorded` steps. first: the first place drawn.
    """
    last = end_of(found)
    shown = min(MOST_PLACES, last - first)
    figure = go.Figure(data=step_traces(found, first, shown, names=True))
    whole = "" if shown == last else f"places {first} to {first + shown - 1} of {last} are drawn · "
    lines = [
        provenance_line(provenance),
        f"{whole}order, not time: every step takes one place · g: gate and up panel, d: down panel, r: row tile",
        key(KINDS),
    ]
    figure.update_layout(dressing(f"{len(found)} steps on three units", "<br>".join(lines), 3 * UNIT_ROW))
    figure.update_xaxes(title_text="place in the order (no time)", range=[first - 0.5, first + shown - 0.5])
    figure.update_xaxes(showgrid=False, nticks=12)
    return figure.update_yaxes(unit_axis()).update_layout(showlegend=False)


def unit_axis() -> dict[str, Any]:
    """Rows for the three units, the first on top."""
    return {
        "tickvals": list(range(len(STEP_UNITS))),
        "ticktext": [f"{unit}\u2002" for unit in STEP_UNITS],
        "range": [len(STEP_UNITS) - 0.5, -0.5],
        "showgrid": False,
        "ticks": "",
    }


def end_of(found: Sequence[Placed]) -> int:
    """How many places the steps take."""
    return max((step.place for step in found), default=-1) + 1


def step_traces(
    found: Sequence[Placed], first: int, shown: int, axes: dict[str, str] | None = None, *, names: bool = False
) -> list[dict[str, Any]]:
    """Two traces, of places `first` to `first + shown - 1`: the steps by colour, and their waits as lines.

    With `names`, these stand on the steps, and a pointer is told more: too much for a live figure.
    """
    kinds = np.full((len(STEP_UNITS), shown), np.nan)
    texts = [["" for _ in range(shown)] for _ in STEP_UNITS]
    told = [["" for _ in range(shown)] for _ in STEP_UNITS]
    lines: list[tuple[float, float]] = []
    for step in found:
        if not first <= step.place < first + shown:
            continue
        row, column = STEP_UNITS.index(step.unit), step.place - first
        kinds[row, column] = list(KINDS).index(step.kind) + 0.5
        texts[row][column], told[row][column] = step.name, step.told
        lines += [point for unit, place in step.waits for point in _wait(step, unit, place, first, WAIT_WIDTH * shown)]
    x, y = np.array(lines, np.float64).reshape(-1, 2).T
    heat: dict[str, Any] = {
        "type": "heatmap",
        "x0": first,
        "dx": 1,
        "z": kinds,
        "zmin": 0,
        "zmax": len(KINDS),
        "colorscale": stepped(list(KINDS.values())),
        "showscale": False,
        "xgap": 1,
        "ygap": 8,
        "customdata": told if names else texts,
        "hoverongaps": False,
        "hovertemplate": "place %{x}: %{customdata}<extra></extra>",
        **(axes or {}),
    }
    if names:
        heat |= {"text": texts, "texttemplate": "%{text}", "textfont": {"color": INK, "size": 10}}
    waits = {"type": "scatter", "mode": "none", "fill": "toself", "fillcolor": GREY, "hoverinfo": "skip"}
    return [heat, {**waits, "x": x, "y": y, **(axes or {})}]


def stepped(colours: Sequence[str]) -> list[tuple[float, str]]:
    """A colour scale of plain steps: number i + 0.5 of len(colours) has colour i."""
    count = len(colours)
    return [(edge / count, colour) for i, colour in enumerate(colours) for edge in (i, i + 1)]


def _wait(step: Placed, unit: str, place: int, first: int, width: float) -> list[tuple[float, float]]:
    """From the end of the step that is waited for to the start of the one that waits, as a thin area with a gap behind.

    A page draws all areas of a trace in one stroke, but every line by itself.
    """
    row, other = STEP_UNITS.index(step.unit), STEP_UNITS.index(unit)
    inside = 0.36 if row > other else -0.36
    start, end = (max(place + 0.5, first - 0.5), other + inside), (step.place - 0.5, row - inside)
    height = -WAIT_HEIGHT if row > other else WAIT_HEIGHT  # across the line, however flat it lies
    back = [(x + width, y + height) for x, y in (end, start)]
    return [start, end, *back, start, (np.nan, np.nan)]


def _told(step: Step) -> str:
    works = {"gate_up": "gate and up panel", "down": "down panel", "": "rows"}[step.projection]
    number = f" {step.panel}" if step.projection else ""
    return f"{step.kind}, {works}{number} of row tile {step.row_tile}"


def _of_span(span: Span, first: int, number: int) -> Placed:
    """A recorded step of panel or row tile `number`: the span's name is kind and projection."""
    kind, _, projection = span.name.partition(" ")
    letter = {"gate and up": "g", "down": "d", "": "r"}[projection]
    return Placed(span.unit, kind, span.start_ns - first, f"{letter}{number}", span.name)
