"""A replayed request as a drawing: storage, compute and banks, made to follow a slider."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from estream_lab.trace import Trace
from estream_lab.trace.bubbles import CAUSES, DONE, Bubble
from estream_lab.trace.tracks import origin_ns
from estream_lab.viz.figures.banks import bank_states
from estream_lab.viz.figures.bubbles import BUSY, CAUSE_COLOURS, PAIR, ROW, WIDTH, pieces
from estream_lab.viz.figures.theme import AXIS, dressing, key, provenance_line
from estream_lab.viz.figures.timeline import describe

TITLE = "Simulated from measured service times"
COLOURS = {**BUSY, **CAUSE_COLOURS, DONE: "rgba(128,128,128,0.10)"}
STATES = {"filling": BUSY["reads"], "ready": "rgba(128,128,128,0.16)", "in use": BUSY["experts"]}
"""Banks step back like other work: the colours are the bubbles'."""

CHANGING = ("schedule", "carry_over", "banks", "queue_depth", "read_bandwidth_bytes_per_second")
MEANINGS = (
    key({**BUSY, "bank ready": STATES["ready"]}),
    key({cause: CAUSE_COLOURS[cause] for cause in CAUSES if cause != DONE}),
)
"""The colours' meanings, in two lines."""

LEFT = 80  # px: the rows' names


def replay_drawing(trace: Trace, found: Sequence[Bubble], most_banks: int, unit_ns: int) -> dict[str, Any]:
    """Rows from the top: storage and compute with their bubbles by cause (``found``), then what each bank holds.

    Whatever need not change from one setting to another stays the same, for a live figure draws anew what changes:
    there are rows for ``most_banks`` banks, and the axis ends at ``unit_ns`` or whole halves of it more. What the
    setting is stands in no title: who shows the drawing says it.
    """
    shown = list(pieces(trace, found))
    return {
        "data": [
            _bars(
                "pipeline",
                [(piece.row, piece.start, piece.duration, COLOURS[piece.kind], piece.text) for piece in shown],
            ),
            _bars("banks", _banks(trace)),
        ],
        "layout": _layout(trace, most_banks, unit_ns),
    }


Bar = tuple[float, float, float, str, str]
"""Row, start and duration in ms, colour, and what it says to the pointer."""


def _banks(trace: Trace) -> list[Bar]:
    origin = origin_ns(trace.spans)
    return [
        (
            PAIR + (state.bank or 0),
            (state.start_ns - origin) / 1e6,
            state.duration_ns / 1e6,
            STATES[state.name],
            f"bank {state.bank} {state.name}<br>{describe(state, origin)}",
        )
        for state in bank_states(trace)
    ]


def _bars(name: str, bars: list[Bar]) -> dict[str, Any]:
    rows, starts, durations, colours, texts = zip(*bars, strict=True) if bars else [()] * 5
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        # arrays: plotly looks at a list value by value
        "x": np.asarray(durations, float),
        "base": np.asarray(starts, float),
        "y": np.asarray(rows, float),
        "width": WIDTH,
        "customdata": np.asarray(texts, object),
        "hovertemplate": "%{customdata}<extra></extra>",
        "marker": {"color": list(colours), "line": {"width": 0}},
        "showlegend": False,
    }


def _layout(trace: Trace, most_banks: int, unit_ns: int) -> dict[str, Any]:
    facts = {name: value for name, value in trace.provenance.items() if name not in CHANGING}
    halves = max(2, math.ceil(2 * trace.request_ns / unit_ns * 1.001))
    subtitle = "<br>".join([provenance_line(facts), *MEANINGS])
    layout = dressing(TITLE, subtitle, round(ROW * (PAIR + most_banks)) + 8)
    layout["margin"] = {**layout["margin"], "l": LEFT}
    still = {**AXIS, "automargin": False, "ticks": ""}
    layout["xaxis"] = {
        **still,
        "title": {"text": "ms since the request's start, on the virtual clock"},
        "range": [0, halves * unit_ns / 2e6],
    }
    layout["yaxis"] = {
        **still,
        "tickvals": [0, 1, *(PAIR + bank for bank in range(most_banks))],
        "ticktext": ["storage", "compute", *(f"bank {bank}" for bank in range(most_banks))],
        "range": [PAIR + most_banks - 0.4, -0.6],
        "showgrid": False,
    }
    return layout
