"""A way through the protocol, step by step: what each bank held after each move, and where two events collide."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go

from estream_lab.experts.exploration import Setting
from estream_lab.experts.protocol import AVAILABLE, FILLING, IN_USE, NONE, READY, Bank, State
from estream_lab.experts.steps import placement
from estream_lab.viz.figures.story import Story
from estream_lab.viz.figures.theme import (
    AXIS,
    CLEAR,
    COLOURS,
    FAINT,
    GREY,
    INK,
    LINE,
    TEMPLATE,
    faded,
    head_px,
    provenance_line,
)

ROW = 23  # px
LABELS = 290  # px, for the sentences
GAP = 1.25  # columns from the last bank to the placement map
TINTS = ("#7fbfe0", "#f0c060", "#8fd0bb", "#d0a8c8")  # of the banks, in the placement map
BARE = {
    **AXIS,
    "showgrid": False,
    "ticks": "",
    "tickfont": {"size": 12},
    "showline": False,
    # plotly would measure every label at every step of a slider: a third of the time that drawing takes
    "automargin": False,
    "ticklabeloverflow": "allow",
}
RED, PURPLE = COLOURS["wait"], COLOURS["other"]

KINDS = {
    "routes unknown": (COLOURS["dense"], COLOURS["dense"], INK),
    "routes known": (CLEAR, COLOURS["dense"], GREY),
    "filling": (COLOURS["storage"], COLOURS["storage"], INK),
    "ready": (faded(COLOURS["expert"], 0.15), COLOURS["expert"], GREY),
    "in use": (COLOURS["expert"], COLOURS["expert"], INK),
}
"""Kinds of bars: fill, outline, text."""

KEY = "\u2003".join(
    f'<span style="color:{line}">{"■" if fill == line else "□"}</span> {kind}'
    for kind, (fill, line, _) in KINDS.items()
)
"""What the colours mean. A legend of plotly's would take a quarter of the time that drawing takes, at every step."""

INSIDE = {"textposition": "inside", "textangle": 0, "constraintext": "none"}
BANK_KINDS = {FILLING: "filling", READY: "ready", IN_USE: "in use"}


class _Bar(NamedTuple):
    """A bar of ``kind`` in ``column`` from step ``start`` to before ``end``."""

    kind: str
    column: int
    start: int
    end: int
    text: str


def step_timeline(story: Story, map_at: int | None = None) -> go.Figure:
    """The whole story as a figure: steps from top to bottom, a column for the layer and one for each bank.

    The hazard's sentence stands above, the placement map after step ``map_at`` (the last one by default) beside it. The
    move that a rule forbids is purple, the events that collide are red.
    """
    figure = go.Figure(step_drawing(story, len(story.lines), map_at))
    if story.hazard is not None:
        told, layout = wrap(str(story.hazard), LINE), figure.layout
        layout.title.subtitle.text = "<br>".join([*told, layout.title.subtitle.text])
        more = 16 * len(told)
        figure.update_layout(height=layout.height + more, margin_t=layout.margin.t + more)
    return figure


def step_drawing(story: Story, step: int, map_at: int | None = None) -> dict[str, Any]:
    """The story up to ``step`` as plain values (`viz.explore.live.Drawing`).

    The placement map is that after ``map_at``, ``step`` by default.
    """
    seen = min(step, len(story.moves))
    mapped = seen if map_at is None else map_at
    one_layer = len(story.setting.limits.groups) == 1
    bars = [*_layer_bars(story.states[: seen + 1]), *_bank_bars(story.states[: seen + 1], one_layer)]
    data = [_bars(bars), _marks(story, step), _map(story, mapped)]
    return {"data": data, "layout": _layout(story, step, mapped)}


def _runs(after: Sequence[Any]) -> Iterator[tuple[int, int, Any]]:
    """(first step, step after the last, value) of each run of equal values; ``after`` starts before step 1."""
    at = 0
    for value, run in groupby(after):
        length = len(list(run))
        yield at, at + length, value
        at += length


def _layer_bars(after: Sequence[State]) -> Iterator[_Bar]:
    for start, end, (layer, routed, to_run) in _runs([(s.layer, s.routed, s.to_run) for s in after]):
        if layer != NONE:
            left = f"to run: {', '.join(map(str, to_run)) or '–'}"
            yield _Bar(
                "routes known" if routed else "routes unknown", 0, start, end, left if routed else f"layer {layer}"
            )


def _bank_bars(after: Sequence[State], one_layer: bool) -> Iterator[_Bar]:
    for at in range(len(after[0].banks)):
        for start, end, bank in _runs([state.banks[at]._replace(missing=0) for state in after]):
            if bank.state is not AVAILABLE:
                yield _Bar(BANK_KINDS[bank.state], at + 1, start, end, _held(bank, one_layer))


def _held(bank: Bank, one_layer: bool) -> str:
    assert bank.key is not None
    key = f"group {bank.key.group}" if one_layer else str(bank.key)
    return f"{key}{', failed' if bank.failed else ''}{', kept' if bank.kept else ''}"


def _bars(bars: Sequence[_Bar]) -> dict[str, Any]:
    return {
        "type": "bar",
        "name": "states",
        "x": [bar.column for bar in bars],
        "base": [bar.start - 0.5 for bar in bars],
        "y": [bar.end - bar.start for bar in bars],
        "width": 0.94,
        "text": [bar.text for bar in bars],
        "customdata": [f"{bar.kind}, steps {bar.start} to {bar.end - 1}" for bar in bars],
        "insidetextanchor": "start",
        "textfont": {"color": [KINDS[bar.kind][2] for bar in bars], "size": 11},
        "marker": {
            "color": [KINDS[bar.kind][0] for bar in bars],
            "line": {"color": [KINDS[bar.kind][1] for bar in bars], "width": 1},
        },
        "hovertemplate": "%{text}<br>%{customdata}<extra></extra>",
        **INSIDE,
    }


def _marks(story: Story, step: int) -> dict[str, Any]:
    """A cross where each colliding event happens: in its bank's column, or the layer's."""
    events = [event for event in story.collision if event.at <= step]
    return {
        "type": "scatter",
        "name": "collision",
        "mode": "markers",
        "x": [event.bank + 1.4 if event.bank != NONE else 0.4 for event in events],
        "y": [event.at for event in events],
        "text": [str(event) for event in events],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {"symbol": "x", "size": 11, "color": RED, "line": {"color": "#ffffff", "width": 1}},
        "cliponaxis": False,
    }


def _map(story: Story, mapped: int) -> dict[str, Any]:
    """The placement map after ``mapped`` steps: a column a layer, a row an expert, coloured by bank."""
    slots, size = placement(story.states[mapped], story.setting), story.setting.group_size  # (L, E)
    cells = [(layer, expert, int(slots[layer, expert])) for layer, expert in np.ndindex(slots.shape)]
    return {
        "type": "bar",
        "name": "placement map",
        "x": [story.setting.banks + GAP + layer for layer, _, _ in cells],
        "base": [expert + 0.53 for _, expert, _ in cells],
        "y": [0.94] * len(cells),
        "width": 0.96,
        "text": [f"expert {expert}{f' → slot {slot}' if slot >= 0 else ''}" for _, expert, slot in cells],
        "hovertemplate": "%{text}<extra></extra>",
        "insidetextanchor": "middle",
        "textfont": {"color": [INK if slot >= 0 else GREY for _, _, slot in cells], "size": 12},
        "marker": {
            "color": [TINTS[slot // size % len(TINTS)] if slot >= 0 else FAINT for _, _, slot in cells],
            "line": {"width": 0},
        },
        **INSIDE,
    }


# ---- the frame


def _layout(story: Story, step: int, mapped: int) -> dict[str, Any]:
    banks, layers, rows = story.setting.banks, range(len(story.setting.limits.groups)), len(story.lines)
    subtitle = provenance_line({**story.provenance, **_settings(story.setting)})
    top, plot = head_px(subtitle) + 32, ROW * max(rows, story.setting.experts)
    after = f", step {mapped}" if mapped != min(step, len(story.moves)) else ""
    return {
        "template": TEMPLATE,
        "title": {
            "text": _title(story),
            "subtitle": {"text": f"{subtitle}<br>{KEY}"},
            "xref": "container",
            "pad": {"l": 8, "t": 10},
        },
        "height": top + plot + 20,
        "margin": {"t": top, "b": 20, "l": LABELS, "r": 20},
        "barmode": "overlay",
        "showlegend": False,
        "xaxis": {
            **BARE,
            "range": [-0.5, banks + GAP + len(layers) - 0.5],
            "side": "top",
            "tickvals": [*range(banks + 1), *(banks + GAP + layer for layer in layers)],
            "ticktext": [
                "executor",
                *(f"bank {at}" for at in range(banks)),
                *(f"Φ, layer {at}{after}" for at in layers),
            ],
        },
        "yaxis": {
            **BARE,
            "range": [plot / ROW + 0.5, 0.5],
            "tickvals": list(range(1, rows + 1)),
            "ticktext": [_label(story, at) for at in range(1, rows + 1)],
        },
        "shapes": _shapes(story, step),
    }


def _settings(setting: Setting) -> dict[str, int]:
    return {"group_size": setting.group_size, "banks": setting.banks, "queue_depth": setting.queue_depth}


def _title(story: Story) -> str:
    if story.hazard is None:
        return "All rules on: no two events collide"
    return f"Without the rule “{story.rule}”: {story.hazard.kind}"


def _label(story: Story, at: int) -> str:
    """The sentence of a step, in the colour of what it is."""
    text = f"{story.words(at)}  <b>{at}</b>"
    if at in [event.at for event in story.collision]:
        return f'<span style="color:{RED}"><b>{text}</b></span>'
    return f'<span style="color:{PURPLE}"><b>{text}</b></span>' if at in story.refused else text


def _shapes(story: Story, step: int) -> list[dict[str, Any]]:
    """A band behind the colliding steps that have come, and a line below the last step that has."""
    across = {"x0": -0.5, "x1": story.setting.banks + 0.5, "layer": "below"}
    bands = [
        {"type": "rect", **across, "y0": event.at - 0.5, "y1": event.at + 0.5, "fillcolor": FAINT, "line": {"width": 0}}
        for event in story.collision
        if event.at <= step
    ]
    under = {"color": GREY, "width": 1.5, "dash": "dot"}
    return [*bands, {"type": "line", **across, "layer": "above", "y0": step + 0.5, "y1": step + 0.5, "line": under}]
