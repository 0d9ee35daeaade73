"""Lesson 05 in a real JupyterLab: run, its sliders moved, looked at in both themes."""

from pathlib import Path

from .desk import NOTEBOOKS, Desk, open_notebook

LESSON = NOTEBOOKS / "05_streaming_pipeline.ipynb"
FIGURES = ["measured", "bubbles", "shares", "recurrence", "unequal", "replay", "policy", "safety", "explorer", "static"]


def test_lesson_05_runs_moves_and_is_readable(tmp_path: Path) -> None:
    with open_notebook(LESSON, tmp_path) as desk:
        desk.run_all()
        desk.check_outputs(FIGURES)
        assert "recurrence_agrees = true" in desk.cell("static").inner_text()
        check_sliders(desk)
        check_schedules(desk)
        desk.take_pictures(FIGURES, "lesson-05-")
        desk.check_watch()


def check_sliders(desk: Desk) -> None:
    """Each slider replays the measured times: line and bars change in the browser."""
    assert desk.line("explorer").startswith("Simulated: ")
    assert "Measured: " in desk.line("explorer")
    before = banks_drawn(desk)
    assert {row for row, _, _ in before} == {0, 1, 2}
    desk.press("explorer", "B")
    desk.wait_for_line("explorer", "Simulated: ")
    desk.wait_for_line("explorer", "B=4 Q=2")
    more = banks_drawn(desk)
    assert {row for row, _, _ in more} == {0, 1, 2, 3}
    desk.press("explorer", "Q", "ArrowLeft")
    desk.wait_for_line("explorer", "B=4 Q=1")
    lone = banks_drawn(desk)
    assert lone != more
    desk.press("explorer", "reads share")
    desk.wait_for_line("explorer", "B=4 Q=1, 28 MB/s")
    assert banks_drawn(desk)[0][2] < lone[0][2]  # the first read


def banks_drawn(desk: Desk) -> list[tuple[int, float, float]]:
    """(bank, start, duration) of the states of the banks in the browser's figure, by bank and time."""
    ((_, rows, starts, durations),) = [each for each in desk.drawn("explorer", "y", "base", "x") if each[0] == "banks"]
    return [(round(row - 2.35), start, time) for row, start, time in zip(rows, starts, durations, strict=True)]


def check_schedules(desk: Desk) -> None:
    """Another schedule, one's own, and one that can't be carried over."""
    schedule, over = desk.cell("explorer").locator("select").all()
    schedule.select_option("on-demand")
    desk.wait_for_line("explorer", "schedule's choice")
    over.select_option("across layers")
    desk.wait_for_line("explorer", "only the early schedule can be carried over")
    schedule.select_option("early")
    desk.wait_for_line("explorer", "Simulated: ")
    over.select_option("each layer for itself")
    schedule.select_option("popular first")
    desk.wait_for_line("explorer", "Simulated: ")
