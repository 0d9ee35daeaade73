"""What every explorer is: controls, a line of text and one live figure.

A new explorer is a class over `Explorer` that builds its controls and says what their values show:

    class LoadExplorer(Explorer):
        def __init__(self, routes: Routes, experts: int) -> None:
            self.routes, self.experts = routes, experts
            super().__init__({"capacity": named(widgets.IntSlider(8, 1, 64), "capacity")})

        def picture(self, *, capacity: int) -> Picture:
            return Picture(loads_drawing(self.routes, self.experts, capacity), f"capacity {capacity}")

`picture` gets the value of every control under the control's name. It is pure: the same values give the same picture.
Its figure is a drawing, the figure's plain values (`live.Drawing`), with as many traces each time: what differs from
the one shown is sent, so a `picture` of a few milliseconds follows the hand. (A `go.Figure` serves too, but takes tens
of milliseconds to build.) An `EStreamError` of it is shown in place of the text, and the figure stays.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from estream_lab.errors import EStreamError
from estream_lab.viz.explore.live import Drawing, LiveFigure, lean
from estream_lab.viz.figures.theme import LINE_PX

WRAP = {"flex_flow": "row wrap"}
NARROW = {"width": "270px"}
TWO_LINES = {"min_height": "60px"}  # the figure stays where it is when the text grows


@dataclass(frozen=True, slots=True)
class Picture:
    """What an explorer shows: a drawing (or figure), and a line of HTML above it.

    `settings` tell in a static figure what the controls said, where the drawing itself does not: a title that changes
    with every move would be drawn anew with every move.
    """

    figure: Drawing | go.Figure
    text: str
    settings: str = ""


class Explorer(ABC):
    """Controls over one live figure: moving one shows the picture of the new values.

    Display it with `.widget`; `.figure` is a static figure of the last picture, `.values` what the controls say,
    `.controls` the widgets by name, `.line` the text's widget, `.head` the title's, `.live` the figure's.
    """

    busy = ""
    """Shown in place of the text while a picture is made that takes its time."""

    def __init__(self, controls: Mapping[str, Any]) -> None:
        self.controls = dict(controls)
        self.last = self.picture(**self.values)
        head, drawing = lean(self.last.figure)
        self.live = LiveFigure(drawing)
        self.line, self.head = widgets.HTML(self.last.text, layout=TWO_LINES), widgets.HTML(head)
        for control in self.controls.values():
            control.observe(self._moved, names="value")
        bar = widgets.HBox(list(self.controls.values()), layout=WRAP)
        self.widget = widgets.VBox([bar, self.line, self.head, self.live])

    @abstractmethod
    def picture(self, *args: Any, **values: Any) -> Picture:
        """What the controls' values show."""

    @property
    def values(self) -> dict[str, Any]:
        """What the controls say now, by name."""
        return {name: control.value for name, control in self.controls.items()}

    @property
    def figure(self) -> go.Figure:
        """The last picture as a static figure, with its settings at the head of the subtitle."""
        figure = go.Figure(self.last.figure)
        if self.last.settings:
            subtitle = figure.layout.title.subtitle
            subtitle.text = f"{self.last.settings}<br>{subtitle.text or ''}"
            figure.update_layout(margin_t=figure.layout.margin.t + LINE_PX, height=figure.layout.height + LINE_PX)
        return figure

    def _moved(self, _: object) -> None:
        if self.busy:
            self.line.value = self.busy
        try:
            self.last = self.picture(**self.values)
        except EStreamError as error:
            self.line.value = f"<b>{error}</b>"
            return
        head, drawing = lean(self.last.figure)

        def texts() -> None:
            self.head.value, self.line.value = head, self.last.text

        self.live.redraw(drawing, texts)


def named(control: Any, name: str) -> Any:
    """The control with its label, as wide as every explorer's."""
    control.description = name
    control.layout = NARROW
    return control


def stepped(name: str, steps: Sequence[Any], value: Any) -> widgets.SelectionSlider:
    """A slider over these numbers and ``value``, which it starts at."""
    options = sorted({*steps, value})
    return named(widgets.SelectionSlider(options=[(f"{step:g}", step) for step in options], value=value), name)
