from typing import Any

import ipywidgets as widgets
import pytest

from estream_lab.errors import EStreamError
from estream_lab.viz.explore import Explorer, Picture
from estream_lab.viz.explore.base import named
from tests.viz.hand_made import drawn, plain


class Squares(Explorer):
    busy = "squaring …"

    def __init__(self) -> None:
        self.seen: list[str] = []
        super().__init__(
            {"number": named(widgets.IntSlider(2, 0, 9), "n"), "sign": named(widgets.Dropdown(options=[1, -1]), "±")}
        )

    def picture(self, *, number: int, sign: int) -> Picture:
        if hasattr(self, "line"):
            self.seen.append(self.line.value)
        if number == 9:
            raise EStreamError("nine is too many")
        if number == 8:
            raise ZeroDivisionError
        drawing = {"data": [{"type": "bar", "x": [1, 2], "y": [number, sign * number**2]}], "layout": {}}
        return Picture(drawing, f"n = {number}")


def bars(explorer: Squares) -> list[Any]:
    return list(explorer.live.shown.data[0].y)


def test_moving_a_control_shows_the_picture_of_all_values() -> None:
    explorer = Squares()
    assert (bars(explorer), explorer.line.value) == ([2, 4], "n = 2")
    explorer.controls["number"].value = 3
    explorer.controls["sign"].value = -1
    assert (bars(explorer), explorer.line.value) == ([3, -9], "n = 3")
    assert explorer.values == {"number": 3, "sign": -1}
    assert drawn(explorer) == plain(explorer.live.shown)
    assert plain(explorer.figure)["data"] == plain(explorer.live.shown)["data"]
    assert explorer.seen == ["squaring …"] * 2


def test_a_refusal_is_told_and_the_figure_stays() -> None:
    explorer = Squares()
    explorer.controls["number"].value = 9
    assert (bars(explorer), explorer.line.value) == ([2, 4], "<b>nine is too many</b>")
    explorer.controls["number"].value = 1
    assert (bars(explorer), explorer.line.value) == ([1, 1], "n = 1")


def test_a_fault_of_the_program_is_not_swallowed() -> None:
    with pytest.raises(ZeroDivisionError):
        Squares().controls["number"].value = 8


def test_the_page_holds_controls_text_and_figure_from_top_to_bottom() -> None:
    explorer = Squares()
    bar, line, head, live = explorer.widget.children
    assert bar.children == tuple(explorer.controls.values())
    assert (line, head, live) == (explorer.line, explorer.head, explorer.live)
    assert [control.description for control in bar.children] == ["n", "±"]
