"""A plotly figure in the page that is brought up to date by what changed in it, and by nothing else.

plotly's own live figure checks and copies whatever it is given, in the kernel and again in the browser, and tells the
kernel in detail what came of it: with every move of a slider that takes as long as drawing. What really changed is a
few arrays and numbers. Here they go to plotly.js as they are (`live.js`); static figures are checked.
"""

import re
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import plotly.graph_objects as go
import traitlets
from plotly.io.json import to_json_plotly
from plotly.offline import get_plotlyjs

from estream_lab.viz.figures.theme import GREY, LINE_PX, TEMPLATE, head_px

TICK_PX = 12  # above a plot without a title: half of a tick's label
STILL = {"tickangle": 0, "ticklabeloverflow": "allow", "ticks": ""}
AXIS_NAME = re.compile(r"[xy]axis\d*")

Drawing = Mapping[str, Any]
"""A figure as plain values, `{"data": [trace, ...], "layout": {...}}`: `plotly.graph_objects.Figure` takes it."""


class LiveFigure(anywidget.AnyWidget):
    """A widget as wide as the page that shows a drawing; `redraw` shows another one.

    Every drawing has as many traces, of the same types in the same order; an empty one costs nothing. Several views
    of it, and one that is opened later, show the same.
    """

    _esm = (
        # run at the first drawing: anywidget gives a script two seconds to be there
        f"const load = (module) => {{\n{get_plotlyjs()}\nreturn module.exports; }};\n"
        + Path(__file__).with_name("live.js").read_text(encoding="utf-8")
    )
    # what changes within a figure moves nothing else: the browser need not lay out the whole notebook anew
    _css = ".estream-live .svg-container { contain: strict }"

    drawing = traitlets.Any().tag(sync=True, to_json=lambda drawing, _: to_json_plotly(drawing))
    """All that is shown: a page that is opened begins with it. Changes are sent by themselves: the page's own copy of
    this value, which a browser may save, stays the first drawing."""

    def __init__(self, drawing: Drawing | go.Figure) -> None:
        self._clicked: list[Callable[[int, int], None]] = []
        super().__init__(drawing=plain(drawing))
        self.add_class("estream-live")
        self.on_msg(self._told)

    @property
    def shown(self) -> go.Figure:
        """What the page shows, as a static figure."""
        return go.Figure(self.drawing)

    def redraw(self, drawing: Drawing | go.Figure, beside: Callable[[], None] | None = None) -> None:
        """Send the browser what differs from the drawing shown, in one message.

        What `beside` sends goes right before it: the page then shows both in one frame.

        Raises ValueError for another number of traces: a live figure is restyled, not built anew.
        """
        wanted, shown = plain(drawing), self.drawing
        traces = [changes(old, new) for old, new in zip(shown["data"], wanted["data"], strict=True)]
        layout = changes(shown["layout"], wanted["layout"])
        message = to_json_plotly({"traces": traces, "layout": layout}) if layout or any(traces) else ""
        if beside is not None:
            beside()
        if message:
            self.send({"changes": message})
        data = [changed(old, found) for old, found in zip(shown["data"], traces, strict=True)]
        self.drawing = {"data": data, "layout": changed(shown["layout"], layout)}

    def on_click(self, clicked: Callable[[int, int], None]) -> None:
        """Call this with the numbers of trace and point when a reader clicks a point."""
        self._clicked.append(clicked)

    def _told(self, _: object, content: Mapping[str, Any], __: object) -> None:
        for clicked in self._clicked:
            clicked(int(content["trace"]), int(content["point"]))

    def _should_send_property(self, key: str, value: object) -> bool:
        """ipywidgets' own question: every trait but the drawing, whose changes are sent instead."""
        return key != "drawing" and bool(super()._should_send_property(key, value))


def plain(drawing: Drawing | go.Figure) -> dict[str, Any]:
    """The drawing's `data` and `layout`, of a figure too."""
    values = drawing.to_plotly_json() if isinstance(drawing, go.Figure) else drawing
    return {"data": list(values["data"]), "layout": dict(values["layout"])}


def lean(drawing: Drawing | go.Figure) -> tuple[str, Drawing]:
    """A drawing as the page shows it live: its title and subtitle as HTML, and the rest, made to be drawn fast.

    With every change plotly lays out every title anew and measures every tick's label, to turn or hide those that
    collide: a third of the time that drawing takes. The page lays out the title once; labels stay as they are, without
    the ticks' short lines.
    """
    values = plain(drawing)
    layout: dict[str, Any] = {
        name: {**STILL, **value} if AXIS_NAME.fullmatch(name) else value for name, value in values["layout"].items()
    }
    title = layout.pop("title", None)
    if not title:
        return "", {"data": values["data"], "layout": layout}
    subtitle = title.get("subtitle", {}).get("text") or ""
    room, margin = head_px(subtitle) - TICK_PX, layout["margin"]
    layout |= {"height": layout["height"] - room, "margin": {**margin, "t": margin["t"] - room}}
    left = margin.get("l", TEMPLATE.layout.margin.l) if title.get("xref", "paper") == "paper" else 8
    head = (
        f'<div style="color:{GREY};line-height:{LINE_PX}px;font-size:12px;padding-left:{left}px">'
        f'<div style="font-size:17px;line-height:30px">{title.get("text", "")}</div>{subtitle}</div>'
    )
    return head, {"data": values["data"], "layout": layout}


def changes(old: Mapping[str, Any], new: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """What leads from `old` to `new`: property path (`marker.color`) to its new value, None where it is gone.

    Lists (data, shapes, annotations; of plain values) are compared and replaced as a whole. `changed` goes the way.
    """
    found: dict[str, Any] = {}
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if before is after:
            continue
        if all(isinstance(value, Mapping | None) and not _packed(value) for value in (before, after)):
            found |= changes(before or {}, after or {}, f"{at}{key}.")  # plotly refuses a path beside a part of it
        elif not _same(before, after):
            found[at + key] = after
    return found


def changed(old: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """`old` with these `changes`, itself left as it was."""
    values = dict(old)
    for path, value in found.items():
        *names, last = path.split(".")
        at = reduce(_opened, names, values)
        if value is None:
            at.pop(last, None)
        else:
            at[last] = value
    return values


def _opened(values: dict[str, Any], name: str) -> dict[str, Any]:
    """The mapping of that name, as a copy that may be changed."""
    values[name] = dict(values.get(name) or {})
    return values[name]  # type: ignore[no-any-return]


def _packed(value: Mapping[str, Any] | None) -> bool:
    """Whether that is an array, as a `go.Figure` writes it."""
    return value is not None and "bdata" in value


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if a is None or b is None:
            return False
        one, other = np.asarray(a), np.asarray(b)
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f"))  # gaps in lines
    return bool(a == b)
