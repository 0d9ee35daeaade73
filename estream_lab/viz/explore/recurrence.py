"""The recurrence explorer: one layer worked by hand, with its critical path, under any banks, queue and schedule."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from estream_lab.experts.schedule import POLICIES
from estream_lab.simulate.critical_path import CONSTRAINTS, START, ScheduledLayer
from estream_lab.viz.explore.base import Explorer, Picture, named
from estream_lab.viz.figures.critical_path import BINDING_COLOURS, critical_path_drawing

MOST_QUEUE = 3
SYMBOLS = "adsf"


class RecurrenceExplorer(Explorer):
    """Which layer, schedule, q and b: who works when, the critical path, and a, d, s, f of each group.

    Args:
        layers: by what readers call them; the first one's banks, depth and schedule are those at the start.
    """

    def __init__(self, layers: Mapping[str, ScheduledLayer]) -> None:
        self.layers = dict(layers)
        first = next(iter(self.layers.values()))
        self.most_banks = max(len(layer.reads) for layer in self.layers.values())
        self.longest = max(  # nothing overlaps then
            replace(layer, schedule="on-demand").pipe_time for layer in self.layers.values()
        )
        super().__init__(
            {
                "layer": named(widgets.Dropdown(options=list(self.layers)), "layer"),
                "schedule": named(widgets.Dropdown(options=list(POLICIES), value=first.schedule), "schedule"),
                "banks": named(widgets.IntSlider(first.banks, 1, self.most_banks), "b"),
                "queue_depth": named(widgets.IntSlider(first.queue_depth, 1, MOST_QUEUE), "q"),
            }
        )

    def picture(self, *, layer: str, schedule: str, banks: int, queue_depth: int) -> Picture:
        """That layer under these settings."""
        shown = replace(self.layers[layer], schedule=schedule, banks=banks, queue_depth=queue_depth)
        drawing = critical_path_drawing(shown, MOST_QUEUE, self.most_banks, self.longest)
        settings = f"{layer} · {schedule} · b={banks} q={queue_depth} · T_pipe = {shown.pipe_time}"
        return Picture(drawing, f"{told(shown)}{times(shown)}", settings)


def told(layer: ScheduledLayer) -> str:
    """T_pipe as the sum of the path's steps, and what each of them waited for."""
    parts = []
    for step in layer.path:
        name = (
            "T<sup>ne</sup>" if step.k < 0 else f"{'L' if step.kind == 'read' else 'X'}<sub>{layer.names[step.k]}</sub>"
        )
        parts.append(f"{name} {step.end - step.start}")
    waits = [step.waited_for for step in layer.path if step.waited_for != START]
    counts = ", ".join(
        f'<span style="color:{BINDING_COLOURS[name]}">■</span> {name} {waits.count(name)} ×'
        for name in CONSTRAINTS
        if name in waits
    )
    return f"<b>T_pipe = {layer.pipe_time}</b> = {' + '.join(parts)}; on the path binds: {counts or 'nothing'}"


def times(layer: ScheduledLayer) -> str:
    """a, d, s and f of each group as an HTML table."""

    def row(head: str, cells: Any) -> str:
        inner = "".join(f'<td style="padding:0 10px;text-align:right">{cell}</td>' for cell in cells)
        return f'<tr><td style="padding-right:10px"><b>{head}</b></td>{inner}</tr>'

    rows = [row("k", layer.names), row("L", layer.reads), row("X", layer.runs)]
    rows += [row(symbol, getattr(layer.times, symbol)) for symbol in SYMBOLS]
    return f'<table style="line-height:19px">{"".join(rows)}</table>'
