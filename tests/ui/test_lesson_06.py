"""Lesson 06 in a real JupyterLab: run, its sliders moved, looked at in both themes."""

from pathlib import Path

from .desk import NOTEBOOKS, Desk, open_notebook

LESSON = NOTEBOOKS / "06_max_plus_configuration.ipynb"
FIGURES = ["table", "paths", "surprise", "worked", "explorer", "regret", "swept", "johnson", "orders", "static"]


def test_lesson_06_runs_moves_and_is_readable(tmp_path: Path) -> None:
    with open_notebook(LESSON, tmp_path) as desk:
        desk.run_all()
        desk.check_outputs(FIGURES)
        assert "pipe_times = " in desk.cell("static").inner_text()
        check_recurrence(desk)
        check_budget(desk)
        desk.take_pictures(FIGURES, "lesson-06-")
        desk.check_watch()


def come_to(desk: Desk, name: str) -> None:
    """Scroll to a cell: JupyterLab takes what is far out of sight out of the page."""
    desk.cell(name).locator(".jp-Cell-outputArea").scroll_into_view_if_needed()


def check_recurrence(desk: Desk) -> None:
    """Banks, queue and schedule of the layer that is worked by hand: T_pipe and the path change in the browser."""
    come_to(desk, "worked")
    desk.wait_for_line("worked", "T_pipe = 16 = ")
    before = desk.drawn("worked", "x")
    desk.press("worked", "b")
    desk.wait_for_line("worked", "T_pipe = 13")
    desk.wait_for_drawing("worked", before, "x")
    layer, schedule = desk.cell("worked").locator("select").all()
    schedule.select_option("on-demand")
    desk.wait_for_line("worked", "T_pipe = 29")
    schedule.select_option("early")
    layer.select_option("counterexample")
    desk.press("worked", "b")
    desk.wait_for_line("worked", "T_pipe = 6")
    desk.press("worked", "q")
    desk.wait_for_line("worked", "T_pipe = 7")


def check_budget(desk: Desk) -> None:
    """The budget moves its line and what is chosen; the other profile has sizes of its own."""
    come_to(desk, "explorer")
    desk.wait_for_line("explorer", "Of ")
    before = desk.drawn("explorer", "x")
    desk.press("explorer", "budget", "Home")
    desk.wait_for_line("explorer", "G=4 B=1 Q=1")
    desk.wait_for_drawing("explorer", before, "x")
    assert "No other group size fits" in desk.line("explorer")
    desk.press("explorer", "budget", "End")
    desk.wait_for_line("explorer", "service times bind")
    profile, model = desk.cell("explorer").locator("select").all()
    model.select_option("shared")
    desk.wait_for_line("explorer", "B=3 Q=2")
    profile.select_option("here, measured")
    desk.wait_for_line("explorer", "than the noise of")
    drawn = {name: rest for name, *rest in desk.drawn("explorer", "x", "y")}
    assert {"G=1", "G=2", "G=4"} <= set(drawn)
    names = desk.cell("explorer").locator(".ytick text").all_text_contents()
    assert names == ["1", "2", "4"]  # a name each, and no scale of numbers
