"""Lesson 01 in a real JupyterLab: run to its end, its sliders moved, looked at in both themes."""

from pathlib import Path

from .desk import NOTEBOOKS, Desk, open_notebook

LESSON = NOTEBOOKS / "01_routing.ipynb"
FIGURES = ["scores", "sums", "routes", "skew", "synthetic", "touched", "padding", "explorer", "static"]


def test_the_lesson_runs_moves_and_is_readable(tmp_path: Path) -> None:
    with open_notebook(LESSON, tmp_path) as desk:
        desk.run_all()
        desk.check_outputs(FIGURES)
        assert "logits_give_the_routes = true" in desk.cell("static").inner_text()
        check_sliders(desk)
        desk.take_pictures(FIGURES, "01-")
        check_views(desk)
        desk.check_watch()


def check_sliders(desk: Desk) -> None:
    """Every slider changes the figure's data and the line; what a step says is what is drawn."""
    assert desk.line("explorer").startswith("R = 512 · 8 = 4096 routes reach 64 of 64 experts")
    moves = {
        "capacity ×": "at 1.5 × R/E rows each",
        "choices k": "R = 512 · 9 = 4608 routes",
        "experts E": "of 128 experts",
        "tokens T": "R = 1024 · 9 = 9216 routes",
    }
    for label, words in moves.items():
        before = desk.drawn("explorer", "x", "y")
        desk.press("explorer", label)
        desk.wait_for_line("explorer", words)
        desk.wait_for_drawing("explorer", before, "x", "y")
    before = desk.drawn("explorer", "y")
    desk.press("explorer", "skew α", "End")
    desk.wait_for_drawing("explorer", before, "y")
    padding, dropped, kept = desk.drawn("explorer", "y")[:3]  # outlines, each over the one before
    assert [padding[0], dropped[0], kept[0]] == ["padding", "dropped", "rows with a route"]
    assert sum(dropped[1][1:-1]) == 9216  # they go on beyond both ends
    assert kept == ["rows with a route", dropped[1]]  # experts alike: nobody is turned away
    assert min(padding[1]) == max(padding[1]) > max(dropped[1])


def check_views(desk: Desk) -> None:
    """A view opened beside the notebook begins with what the moves made of the figure, and both follow the next one."""
    explorer, before = desk.cell("explorer"), desk.drawn("explorer", "x", "y")
    explorer.locator(".jp-InputPrompt").click()
    command(desk, "notebook:create-output-view")
    view = desk.page.locator(".jp-LinkedOutputView .js-plotly-plot")
    view.locator(".main-svg").first.wait_for()
    assert desk.drawn_in(view, "x", "y") == before
    desk.press("explorer", "capacity ×")
    desk.wait_for_drawing("explorer", before, "x", "y")
    assert desk.drawn_in(view, "x", "y") == desk.drawn("explorer", "x", "y")
    check_width(desk)


def check_width(desk: Desk) -> None:
    """A figure is as wide as the page leaves it when the folders beside it go."""
    drawing = desk.cell("explorer").locator(".main-svg").first
    narrow = drawing.evaluate("svg => svg.clientWidth")
    command(desk, "application:toggle-left-area")
    wider = "([svg, narrow]) => svg.clientWidth > 1.2 * narrow"
    desk.page.wait_for_function(wider, arg=[drawing.element_handle(), narrow])
    assert desk.cell("explorer").locator(".js-plotly-plot").evaluate("plot => plot.scrollWidth === plot.clientWidth")


def command(desk: Desk, name: str) -> None:
    desk.page.evaluate("name => window.jupyterapp.commands.execute(name)", name)
