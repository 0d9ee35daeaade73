import json

import numpy as np
import plotly.graph_objects as go
import pytest

from estream_lab.viz.explore.live import LiveFigure, changed, changes, lean
from estream_lab.viz.figures import timeline
from tests.viz.hand_made import plain, trace

DRAWING = {
    "data": [
        {"type": "bar", "x": np.arange(3), "y": [1, 2, 3], "marker": {"color": ["red", "blue", "red"], "opacity": 1}},
        {"type": "scatter", "x": [1], "y": [2]},
    ],
    "layout": {
        "title": {"text": "one"},
        "shapes": [{"type": "line", "x0": 0, "x1": 1, "y0": 0, "y1": 1}],
        "height": 300,
    },
}


def test_a_redrawn_figure_keeps_nothing_of_the_earlier_one() -> None:
    live = LiveFigure(timeline(trace()))
    bare = timeline(type(trace())(trace().spans[:3], trace().provenance))
    live.redraw(bare)
    assert plain(live.shown) == plain(bare)
    other = {**DRAWING, "layout": {"title": {"text": "two"}}}
    again = LiveFigure(DRAWING)
    again.redraw(other)
    assert plain(again.shown) == plain(go.Figure(other))
    again.redraw(DRAWING)
    assert plain(again.shown) == plain(go.Figure(DRAWING))


def test_another_number_of_traces_is_refused() -> None:
    live = LiveFigure(timeline(trace()))
    with pytest.raises(ValueError, match="zip"):
        live.redraw(timeline({"a": trace(), "b": trace()}))


def messages(live: LiveFigure, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What is sent to the page's `live.js` from now on."""
    sent: list[dict[str, object]] = []
    monkeypatch.setattr(live, "send", lambda content: sent.append(json.loads(content["changes"])))
    return sent


def test_only_what_changed_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    live = LiveFigure(DRAWING)
    sent = messages(live, monkeypatch)
    bar = {**DRAWING["data"][0], "y": [1, 2, 4], "x": np.arange(3)}  # x: equal, in another array
    live.redraw({"data": [bar, dict(DRAWING["data"][1])], "layout": {**DRAWING["layout"], "title": {"text": "two"}}})
    assert sent == [{"traces": [{"y": [1, 2, 4]}, {}], "layout": {"title.text": "two"}}]
    live.redraw({"data": [bar, DRAWING["data"][1]], "layout": {**DRAWING["layout"], "title": {"text": "two"}}})
    assert len(sent) == 1


def test_a_gap_in_a_line_is_sent_as_null(monkeypatch: pytest.MonkeyPatch) -> None:
    live = LiveFigure(DRAWING)
    sent = messages(live, monkeypatch)
    line = {**DRAWING["data"][1], "x": np.array([0.5, np.nan, 1]), "y": np.array([1, np.nan, 2])}
    live.redraw({"data": [DRAWING["data"][0], line], "layout": DRAWING["layout"]})
    assert sent[0]["traces"] == [{}, {"x": [0.5, None, 1], "y": [1, None, 2]}]


def test_a_view_that_is_opened_later_begins_with_all_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    live = LiveFigure(DRAWING)
    states: list[object] = []
    monkeypatch.setattr(live, "send_state", lambda key=None: states.append(key))
    live.redraw({**DRAWING, "layout": {"title": {"text": "two"}}})
    assert states == []  # the whole is not sent with every change
    opened = json.loads(live.get_state()["drawing"])
    assert opened["layout"] == {"title": {"text": "two"}}
    assert opened["data"][0]["x"] == [0, 1, 2]


def test_changes_are_named_by_their_path() -> None:
    old = {"a": 1, "b": {"c": [1, 2], "d": 3}, "e": {"f": 1}, "same": np.arange(2)}
    new = {"b": {"c": [1, 3], "d": 3}, "e": None, "g": {"h": 1}, "same": [0, 1]}
    assert changes(old, new) == {"a": None, "b.c": [1, 3], "e.f": None, "g.h": 1}
    assert changes(new, new) == {}
    assert changed(old, changes(old, new)) == {**new, "e": {}, "same": old["same"]}
    assert old["b"] == {"c": [1, 2], "d": 3}  # itself as it was


def test_no_change_is_part_of_another() -> None:
    """plotly refuses `marker` beside `marker.color`, of whatever traces."""
    old = {"marker": {"color": "red", "size": 1}, "x": {"dtype": "i1", "bdata": "AAE="}}
    assert changes(old, {"x": {"dtype": "i1", "bdata": "AAEC"}}) == {
        "marker.color": None,
        "marker.size": None,
        "x": {"dtype": "i1", "bdata": "AAEC"},  # an array of a figure's is one value
    }


def test_what_goes_beside_a_change_goes_right_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page then shows both in one frame; what takes its time comes before."""
    live, sent = LiveFigure(DRAWING), list[str]()
    monkeypatch.setattr(live, "send", lambda _: sent.append("figure"))
    live.redraw({**DRAWING, "layout": {**DRAWING["layout"], "title": {"text": "two"}}}, lambda: sent.append("text"))
    live.redraw(live.drawing, lambda: sent.append("text alone"))
    assert sent == ["text", "figure", "text alone"]


def test_clicks_are_told_by_trace_and_point() -> None:
    live, clicks = LiveFigure(DRAWING), list[tuple[int, int]]()
    live.on_click(lambda trace, point: clicks.append((trace, point)))
    live._handle_custom_msg({"trace": 1, "point": 2}, [])
    assert clicks == [(1, 2)]


def test_a_lean_drawing_has_its_title_in_html_and_its_labels_unmeasured() -> None:
    title = {"text": "Loads", "subtitle": {"text": "one<br>two"}}
    layout = {"title": title, "height": 400, "margin": {"t": 94, "b": 60}, "xaxis": {"range": [0, 1]}, "yaxis2": {}}
    head, drawing = lean({"data": DRAWING["data"], "layout": layout})
    assert ">Loads</div>one<br>two</div>" in head
    assert drawing["data"] == DRAWING["data"] and "title" not in drawing["layout"]
    assert (drawing["layout"]["height"], drawing["layout"]["margin"]) == (400 - 66, {"t": 94 - 66, "b": 60})
    assert drawing["layout"]["xaxis"] == {"range": [0, 1], "tickangle": 0, "ticklabeloverflow": "allow", "ticks": ""}
    assert drawing["layout"]["yaxis2"] == {"tickangle": 0, "ticklabeloverflow": "allow", "ticks": ""}
    assert layout["title"] is title and layout["xaxis"] == {"range": [0, 1]}  # the drawing itself is as it was
    assert lean(DRAWING | {"layout": {}})[0] == ""
