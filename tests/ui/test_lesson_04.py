"""Lesson 04 in a real JupyterLab: run, a rule switched off, its way walked, looked at in both themes."""

from pathlib import Path

from .desk import NOTEBOOKS, Desk, open_notebook

LESSON = NOTEBOOKS / "04_expert_virtualization.ipynb"
FIGURES = ["states", "run", "banks", "rules", "way", "explored", "kept", "wrong", "explorer", "static"]


def test_lesson_04_runs_moves_and_is_readable(tmp_path: Path) -> None:
    with open_notebook(LESSON, tmp_path) as desk:
        desk.run_all()
        desk.check_outputs(FIGURES)
        assert "hazards = []" in (desk.cell("banks").text_content() or "")
        check_step(desk)
        check_rule(desk)
        desk.take_pictures(FIGURES, "lesson-04-")
        desk.check_watch()


def check_step(desk: Desk) -> None:
    """One step back, and the collision is gone from the browser's figure."""
    assert desk.line("explorer").startswith("Step 9 of 9: read group 2 of layer 0 into bank 0.")
    assert "early reuse" in desk.line("explorer")
    marks = {name: steps for name, steps in desk.drawn("explorer", "y")}["collision"]
    assert marks == [7, 9]
    desk.press("explorer", "step", "ArrowLeft")
    desk.wait_for_line("explorer", "Step 8 of 9: release bank 0.")
    assert "early reuse" not in desk.line("explorer")
    assert {name: steps for name, steps in desk.drawn("explorer", "y")}["collision"] == [7]


def check_rule(desk: Desk) -> None:
    """Another rule switched off: another way, from its last step on."""
    desk.cell("explorer").locator("select").select_option("spare-bank")
    desk.wait_for_line("explorer", "deadlock: nothing can follow")
    assert desk.line("explorer").startswith("Step 9 of 9: nothing can follow.")
    assert desk.slider("explorer", "step").get_attribute("aria-valuemax") == "9.0"
