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
