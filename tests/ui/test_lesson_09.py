"""Lesson 09 in a real JupyterLab: run, its sliders moved, looked at in both themes."""

from pathlib import Path

from .desk import NOTEBOOKS, Desk, open_notebook

LESSON = NOTEBOOKS / "09_rivals.ipynb"
FIGURES = ["field", "rows", "contexts", "plans", "large", "tiers", "explorer", "static"]


def test_lesson_09_runs_moves_and_is_readable(tmp_path: Path) -> None:
    with open_notebook(LESSON, tmp_path) as desk:
        desk.run_all()
        desk.check_outputs(FIGURES)
        assert "over_budget = " in desk.cell("static").inner_text()
        check_sliders(desk)
        desk.take_pictures(FIGURES, "lesson-09-")
        desk.check_watch()


def check_sliders(desk: Desk) -> None:
    """The budget changes who fits; the others move one mark each."""
    assert desk.line("explorer").startswith("within 1.00 GiB, EStream early, carried over is the fastest")
    desk.press("explorer", "budget MiB")
    desk.wait_for_line("explorer", "within 1.25 GiB")
    for label, contestant in (
        ("set-up ms", "QNN-switch"),
        ("chunk rows", "chunk padding"),
        ("quantile p", "NPUMoE-like"),
    ):
        before = desk.drawn("explorer", "y")
        desk.press("explorer", label, "ArrowLeft")
        desk.wait_for_drawing("explorer", before, "y")
        moved = {name for name, *ys in desk.drawn("explorer", "y") if name and [name, *ys] not in before}
        assert moved == {contestant}
