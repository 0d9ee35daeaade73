"""Layers by the recurrence as charts, with the critical path drawn through them."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from estream_lab.simulate.critical_path import (
    BANK,
    CONSTRAINTS,
    EXECUTION,
    NON_EXPERT,
    NPU,
    QUEUE,
    READ,
    START,
    ScheduledLayer,
    Step,
)
from estream_lab.viz.figures.theme import (
    AXIS,
    CLEAR,
    COLOURS,
    GREY,
    INK,
    PANEL_TITLE,
    SEQUENCE,
    dress,
    dressing,
    faded,
    key,
    wrap,
)

BINDING_COLOURS = {
    READ: COLOURS["storage"],
    BANK: COLOURS["other"],
    NON_EXPERT: COLOURS["dense"],
    NPU: COLOURS["expert"],
    QUEUE: SEQUENCE[5],
    START: GREY,
}
"""Of each constraint."""

PATH = COLOURS["wait"]
WORK = {NON_EXPERT: COLOURS["dense"], READ: COLOURS["storage"], EXECUTION: COLOURS["expert"]}
ASIDE = 0.3  # of a bar's colour stays where it isn't on the path
STATES = {"filling": faded(COLOURS["storage"], 0.16), "ready": CLEAR, "in use": faded(COLOURS["expert"], 0.16)}

ROW, WIDTH = 26, 0.8  # px, and of a bar in rows
LOW = 0.28  # rows below a bar's middle: where the path runs, clear of the number
LEFT = 96  # px: the rows' names


class Bar(NamedTuple):
    """A bar: its row, start and duration, colour, the number on it and its colour, what it tells the pointer."""

    row: int
    start: int
    duration: int
    colour: str
    number: str
    ink: str
    text: str


def critical_paths(layers: Mapping[str, ScheduledLayer]) -> go.Figure:
    """Each labelled layer as a chart, two beside each other: who works when, and the path that sets T_pipe.

    Rows from the top: the NPU, the queue places, the banks. Read k stands at place k mod q and bank k mod b. What lies
    on the path has its full colour; where the path turns, the colour says which constraint held the next step.
    """
    places, banks = (max(getattr(x, name) for x in layers.values()) for name in ("queue_depth", "banks"))
    columns = min(2, len(layers))
    rows = -(-len(layers) // columns)
    figure = make_subplots(
        rows=rows,
        cols=columns,
        shared_xaxes="all",
        shared_yaxes="all",
        subplot_titles=[f"<b>{name}</b>: T_pipe = {layer.pipe_time}" for name, layer in layers.items()],
        horizontal_spacing=0.04,
        vertical_spacing=min(0.2, 0.14 / max(rows - 1, 1)),
    )
    for number, note in enumerate(figure.layout.annotations):
        note.update(x=figure.get_subplot(number // columns + 1, number % columns + 1).xaxis.domain[0])
    figure.update_annotations(xanchor="left", font_size=13)
    for number, layer in enumerate(layers.values()):
        for trace in _traces(layer, places):
            figure.add_trace(trace, row=number // columns + 1, col=number % columns + 1)
    figure.update_xaxes(range=[0, 1.03 * max(layer.pipe_time for layer in layers.values())], ticks="")
    figure.update_xaxes(title_text="time, any unit", row=rows)
    figure.update_yaxes(**_rows_axis(places, banks))
    settings = [f"{what} {values.pop()}" for what, values in _facts(layers).items() if len(values) == 1]
    height = rows * ROW * (1 + places + banks) + 50 * (rows - 1)
    dress(figure, "The critical path", _subtitle(settings), height, PANEL_TITLE)
    return figure.update_layout(margin_l=LEFT)


def critical_path_drawing(layer: ScheduledLayer, places: int, banks: int, longest: int) -> dict[str, Any]:
    """One such chart for a slider: with rows for ``places`` queue places and ``banks`` banks, and time up to
    ``longest``, whatever the layer uses of them."""
    layout = dressing("The critical path", _subtitle([]), ROW * (1 + places + banks))
    layout["margin"] = {**layout["margin"], "l": LEFT}
    layout["xaxis"] = {**AXIS, "automargin": False, "range": [0, longest], "title": {"text": "time, any unit"}}
    layout["yaxis"] = {**AXIS, "automargin": False, **_rows_axis(places, banks)}
    return {"data": _traces(layer, places), "layout": layout}


def _facts(layers: Mapping[str, ScheduledLayer]) -> dict[str, set[str]]:
    """What may be told once, where all layers have it in common."""
    return {
        "": {layer.schedule for layer in layers.values()},
        "L": {_listed(layer.reads) for layer in layers.values()},
        "X": {_listed(layer.runs) for layer in layers.values()},
        "T^ne": {str(layer.non_expert) for layer in layers.values()},
        "B": {str(layer.banks) for layer in layers.values()},
        "Q": {str(layer.queue_depth) for layer in layers.values()},
    }


def _listed(times: tuple[int, ...]) -> str:
    return ", ".join(map(str, times))


def _subtitle(settings: list[str]) -> str:
    line = wrap(["worked by the recurrence from service times made up", *(each.strip() for each in settings)])
    path = f'<span style="color:{PATH}">━</span> the path; a dot where it turns tells what had to be waited for:'
    return f"{line}<br>{path}<br>{key({name: BINDING_COLOURS[name] for name in CONSTRAINTS if name != START})}"


def _traces(layer: ScheduledLayer, places: int) -> list[dict[str, Any]]:
    """The bars, the path, and where it turns."""
    rows, starts, durations, colours, numbers, inks, texts = zip(*_bars(layer, places), strict=True)
    bars = {
        "type": "bar",
        "orientation": "h",
        "name": "work",
        "x": np.array(durations, float),
        "base": np.array(starts, float),
        "y": np.array(rows, float),
        "width": WIDTH,
        "marker": {"color": list(colours), "line": {"color": GREY, "width": 0.5}},
        "text": list(numbers),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",
        "insidetextfont": {"color": list(inks), "size": 12},
        "customdata": list(texts),
        "hovertemplate": "%{customdata}<extra></extra>",
        "showlegend": False,
    }
    heights = [_row(step, layer) + LOW for step in layer.path]
    path = {
        "type": "scatter",
        "name": "critical path",
        "mode": "lines",
        "x": np.array([time for step in layer.path for time in (step.start, step.end)], float),
        "y": np.repeat(np.array(heights, float), 2),
        "line": {"color": PATH, "width": 3},
        "hoverinfo": "skip",
        "showlegend": False,
    }
    turns = list(zip(layer.path[1:], heights[1:], strict=True))
    marks = {
        "type": "scatter",
        "name": "waited for",
        "mode": "markers",
        "x": np.array([step.start for step, _ in turns], float),
        "y": np.array([height for _, height in turns], float),
        "marker": {
            "color": [BINDING_COLOURS[step.waited_for] for step, _ in turns],
            "size": 11,
            "line": {"color": PATH, "width": 1.5},
        },
        "customdata": [f"{_told(step, layer)}<br>waited for: <b>{step.waited_for}</b>" for step, _ in turns],
        "hovertemplate": "%{customdata}<extra></extra>",
        "showlegend": False,
    }
    return [bars, path, marks]


def _bars(layer: ScheduledLayer, places: int) -> Iterator[Bar]:
    times, on = layer.times, {(step.kind, step.k): step for step in layer.path}

    def work(kind: str, k: int, start: int, end: int) -> Bar:
        step = on.get((kind, k))
        whole = Step(kind, k, start, end, START)
        number = "T^ne" if kind == NON_EXPERT else str(layer.names[k])
        colour, ink = (WORK[kind], INK) if step else (faded(WORK[kind], ASIDE), GREY)
        return Bar(_row(whole, layer), start, end - start, colour, number, ink, _told(whole, layer))

    yield work(NON_EXPERT, -1, 0, layer.non_expert)
    for k in range(len(layer.reads)):
        yield work(READ, k, times.a[k], times.d[k])
        yield work(EXECUTION, k, times.s[k], times.f[k])
        row, name = 1 + places + k % layer.banks, layer.names[k]
        spells = (("filling", times.a, times.d), ("ready", times.d, times.s), ("in use", times.s, times.f))
        for state, starts, ends in spells:
            text = f"bank {k % layer.banks}, group {name}: {state}"
            number = str(name) if state != "ready" else ""
            yield Bar(row, starts[k], ends[k] - starts[k], STATES[state], number, GREY, text)


def _row(step: Step, layer: ScheduledLayer) -> int:
    return 1 + step.k % layer.queue_depth if step.kind == READ else 0


def _told(step: Step, layer: ScheduledLayer) -> str:
    what = step.kind if step.k < 0 else f"{step.kind} of group {layer.names[step.k]}"
    return f"<b>{what}</b><br>from {step.start} to {step.end}"


def _rows_axis(places: int, banks: int) -> dict[str, Any]:
    """NPU, queue places and banks, from the top."""
    names = ["NPU", *(f"place {place + 1}" for place in range(places)), *(f"bank {bank}" for bank in range(banks))]
    return {
        "tickvals": list(range(len(names))),
        "ticktext": names,
        "range": [len(names) - 0.5, -0.5],
        "showgrid": False,
        "ticks": "",
    }
