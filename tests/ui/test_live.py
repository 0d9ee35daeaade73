"""A live figure's script in a page of its own: changes as plotly takes them, and those that it refuses."""

from pathlib import Path
from typing import Any

from estream_lab.viz.explore.live import LiveFigure

from .watch import watched_browser

FIRST = {
    "data": [
        {"type": "bar", "x": [0, 1], "y": [1, 2], "marker": {"color": "red"}},
        {"type": "scatter", "x": [0, 1], "y": [2, 1], "marker": {"color": ["red", "blue"]}},
    ],
    "layout": {"title": {"text": "one"}, "height": 300},
}
SECOND = {
    "data": [
        {"type": "bar", "x": [0, 1], "y": [1, 3]},
        {"type": "scatter", "x": [0, 1, 2, 3], "y": [2, float("nan"), 4, 5], "marker": {"color": "green"}},
    ],
    "layout": {
        "title": {"text": "two"},
        "height": 300,
        "shapes": [{"type": "line", "x0": 0, "x1": 1, "y0": 0, "y1": 1}],
    },
}

OPEN = """async ([script, drawing]) => {
    const address = URL.createObjectURL(new Blob([script], {type: 'text/javascript'}));
    const made = (await import(address)).default();
    window.model = {get: () => drawing, on: (_, told) => { model.told = told; }, send: content => sent.push(content)};
    window.sent = [];
    await made.initialize({model});
    window.hidden = document.createElement('div');
    hidden.style.display = 'none';
    const shown = document.createElement('div');
    document.body.replaceChildren(hidden, shown);
    window.ends = [hidden, shown].map(el => made.render({model, el}));
}"""
DRAWN = """() => [...document.querySelectorAll('.js-plotly-plot')].map(plot => [
    plot._fullData.map(trace => [trace.y, trace.marker.color]),
    plot.layout.title.text, plot._fullLayout.shapes.length, plot.clientWidth === plot.querySelector('svg').clientWidth,
])"""
BARS = "#1f77b4"  # plotly's first colour


def test_a_page_shows_what_the_kernel_says_it_does(tmp_path: Path) -> None:
    live, messages = LiveFigure(FIRST), list[dict[str, str]]()
    opened = live.get_state()
    live.send = lambda content: messages.append(content)  # type: ignore[method-assign]
    with watched_browser(tmp_path) as (_, page, watch):

        def drawn(views: int) -> Any:
            page.wait_for_function("views => document.querySelectorAll('.main-svg').length >= 2 * views", arg=views)
            page.wait_for_timeout(300)
            return page.evaluate(DRAWN)

        page.evaluate(OPEN, [opened["_esm"], opened["drawing"]])
        first = [[[[1, 2], "red"], [[2, 1], ["red", "blue"]]], "one", 0, True]
        assert drawn(1) == [first]
        live.redraw(SECOND)
        page.evaluate("message => model.told(message)", messages.pop())
        second = [[[[1, 3], BARS], [[2, None, 4, 5], "green"]], "two", 1, True]
        assert drawn(1) == [second]
        page.evaluate("hidden.style.display = 'block'")
        assert drawn(2) == [second, second]
        assert watch.errors == []

        refused = '{"traces": [{"marker": null}, {"marker.color": "blue"}], "layout": {}}'  # a part beside its whole
        page.evaluate("message => model.told({changes: message})", refused)
        third = [[[[1, 3], BARS], [[2, None, 4, 5], "blue"]], "two", 1, True]
        assert drawn(2) == [third, third]
        page.evaluate("ends.forEach(end => end())")
        assert page.evaluate("document.querySelectorAll('.main-svg').length") == 0
