"""A plotly figure in the page that is brought up to date by what changed in it, and by nothing else.

plotly checks and copies whatever it is given, in the kernel and again in the browser: a whole figure of a few panels
takes a tenth of a second of each. What really changed under a slider is a few arrays and a title.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import plotly.graph_objects as go

from estream_lab.viz.figures.theme import GREY, LINE_PX, TEMPLATE, head_px

TICK_PX = 12  # above a plot without a title: half of a tick's label
STILL = {"tickangle": 0, "ticklabeloverflow": "allow"}
AXIS_NAME = re.compile(r"[xy]axis\d*")

Drawing = Mapping[str, Any]
"""A figure as plain values, `{"data": [trace, ...], "layout": {...}}`: `plotly.graph_objects.Figure` takes it."""


class LiveFigure:
    """A `FigureWidget` (`.widget`) as wide as the page; `redraw` shows another drawing in it.

    Every drawing has as many traces, of the same types in the same order; an empty one costs nothing.
    """

    def __init__(self, drawing: Drawing | go.Figure) -> None:
        self._shown = plain(drawing)
        self.widget = go.FigureWidget(self._shown)
        fit_the_page(self.widget)

    def redraw(self, drawing: Drawing | go.Figure, beside: Callable[[], None] | None = None) -> None:
        """Send the browser what differs from the drawing shown, in one message.

        What `beside` sends goes right before it: the page then shows both in one frame.

        Raises ValueError for another number of traces: a live figure is restyled, not built anew.
        """
        wanted = plain(drawing)
        traces = [changes(shown, new) for shown, new in zip(self._shown["data"], wanted["data"], strict=True)]
        layout = changes(self._shown["layout"], wanted["layout"])
        with self.widget.batch_update():
            for trace, changed in zip(self.widget.data, traces, strict=True):
                for path, value in changed.items():
                    trace[path] = value
            for path, value in layout.items():
                self.widget.layout[path] = value
            if beside is not None:
                beside()
        self._shown = wanted


def plain(drawing: Drawing | go.Figure) -> dict[str, Any]:
    """The drawing's `data` and `layout`, of a figure too."""
    values = drawing.to_plotly_json() if isinstance(drawing, go.Figure) else drawing
    return {"data": list(values["data"]), "layout": dict(values["layout"])}


def lean(drawing: Drawing | go.Figure) -> tuple[str, Drawing]:
    """A drawing as the page shows it live: its title and subtitle as HTML, and the rest, made to be drawn fast.

    With every change plotly lays out every title anew and measures every tick's label, to turn or hide those that
    collide: a third of the time that drawing takes. The page lays out the title once; labels stay as they are.
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

    Lists (data, shapes, annotations) are compared and replaced as a whole.
    """
    found: dict[str, Any] = {}
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if before is after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found |= changes(before, after, f"{at}{key}.")
        elif not _same(before, after):
            found[at + key] = after
    return found


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        if a is None or b is None:
            return False
        one, other = np.asarray(a), np.asarray(b)
        return bool(np.array_equal(one, other, equal_nan=one.dtype.kind == other.dtype.kind == "f"))  # gaps in lines
    return bool(a == b)


def fit_the_page(live: go.FigureWidget) -> None:
    """Make a live figure as wide as the page, and without the button that sends its data to plotly's server.

    A live figure is drawn before it is in the page, 700 px wide, and with default buttons. Its first message back
    comes when it is there: asked for its own size then, it takes the page's.
    """
    live._config = {"showSendToCloud": False, "responsive": True}

    def drawn(change: Mapping[str, Any]) -> None:
        if change["new"] is None:  # plotly has read the message and clears it
            return
        live.unobserve(drawn, names="_js2py_traceDeltas")
        live.layout.autosize = True

    live.observe(drawn, names="_js2py_traceDeltas")
