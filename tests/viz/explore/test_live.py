import numpy as np
import plotly.graph_objects as go
import pytest

from estream_lab.viz.explore.live import LiveFigure, changes, lean
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
    assert plain(live.widget) == plain(bare)
    other = {**DRAWING, "layout": {"title": {"text": "two"}}}
    again = LiveFigure(DRAWING)
    again.redraw(other)
    assert plain(again.widget) == plain(go.Figure(other))
    again.redraw(DRAWING)
    assert plain(again.widget) == plain(go.Figure(DRAWING))


def test_another_number_of_traces_is_refused() -> None:
    live = LiveFigure(timeline(trace()))
    with pytest.raises(ValueError, match="zip"):
        live.redraw(timeline({"a": trace(), "b": trace()}))


def test_only_what_changed_is_sent() -> None:
    live = LiveFigure(DRAWING)
    sent: list[dict[str, object]] = []
    live.widget.observe(lambda change: sent.append(change["new"]) if change["new"] else None, names="_py2js_update")
    bar = {**DRAWING["data"][0], "y": [1, 2, 4], "x": np.arange(3)}  # x: equal, in another array
    live.redraw({"data": [bar, dict(DRAWING["data"][1])], "layout": {**DRAWING["layout"], "title": {"text": "two"}}})
    assert len(sent) == 1
    assert (sent[0]["style_data"], sent[0]["style_traces"]) == ({"y": [[1, 2, 4]]}, [0])
    assert sent[0]["layout_data"] == {"title.text": "two"}
    live.redraw({"data": [bar, DRAWING["data"][1]], "layout": {**DRAWING["layout"], "title": {"text": "two"}}})
    assert len(sent) == 1


def test_changes_are_named_by_their_path() -> None:
    old = {"a": 1, "b": {"c": [1, 2], "d": 3}, "e": {"f": 1}, "same": np.arange(2)}
    new = {"b": {"c": [1, 3], "d": 3}, "e": None, "g": {"h": 1}, "same": [0, 1]}
    assert changes(old, new) == {"a": None, "b.c": [1, 3], "e": None, "g": {"h": 1}}
    assert changes(new, new) == {}


def test_a_live_figure_takes_the_pages_width_and_sends_nothing_to_a_server() -> None:
    live = LiveFigure(DRAWING).widget
    assert live._config == {"showSendToCloud": False, "responsive": True}
    live._js2py_traceDeltas = {
        "trace_deltas": [],
        "trace_edit_id": live._last_trace_edit_id,
    }  # the browser's first message
    assert live.layout.autosize is True


def test_what_goes_beside_a_change_goes_right_before_it() -> None:
    """The page then shows both in one frame; plotly's checks, which take their time, come before."""
    live, sent = LiveFigure(DRAWING), list[str]()
    live.widget.observe(lambda _: sent.append("figure"), names="_py2js_update")
    live.redraw({**DRAWING, "layout": {**DRAWING["layout"], "title": {"text": "two"}}}, lambda: sent.append("text"))
    assert sent[:2] == ["text", "figure"]


def test_a_lean_drawing_has_its_title_in_html_and_its_labels_unmeasured() -> None:
    title = {"text": "Loads", "subtitle": {"text": "one<br>two"}}
    layout = {"title": title, "height": 400, "margin": {"t": 94, "b": 60}, "xaxis": {"range": [0, 1]}, "yaxis2": {}}
    head, drawing = lean({"data": DRAWING["data"], "layout": layout})
    assert ">Loads</div>one<br>two</div>" in head
    assert drawing["data"] == DRAWING["data"] and "title" not in drawing["layout"]
    assert (drawing["layout"]["height"], drawing["layout"]["margin"]) == (400 - 66, {"t": 94 - 66, "b": 60})
    assert drawing["layout"]["xaxis"] == {"range": [0, 1], "tickangle": 0, "ticklabeloverflow": "allow"}
    assert drawing["layout"]["yaxis2"] == {"tickangle": 0, "ticklabeloverflow": "allow"}
    assert layout["title"] is title and layout["xaxis"] == {"range": [0, 1]}  # the drawing itself is as it was
    assert lean(DRAWING | {"layout": {}})[0] == ""
