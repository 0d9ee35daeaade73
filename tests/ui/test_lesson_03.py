"""Lesson 03 in a real JupyterLab: run to its end, sliders moved, a plan refused, looked at in both themes."""

import re
from pathlib import Path

from .desk import NOTEBOOKS, Desk, open_notebook

LESSON = NOTEBOOKS / "03_tiled_swiglu.ipynb"
FIGURES = ["layout", "decode", "plan", "steps", "run", "accumulator", "attribution", "explorer", "static"]
REGIONS, STEPS = 0, 3  # traces of the explorer


def test_the_lesson_runs_answers_its_sliders_and_is_readable(tmp_path: Path) -> None:
    with open_notebook(LESSON, tmp_path) as desk:
        desk.run_all()
        desk.check_outputs(FIGURES)
        logits = re.findall(r'": "([0-9a-f]{8})"', desk.cell("run").text_content() or "")
        assert len(logits) == 3 and len(set(logits)) == 1  # small tiles, large ones, more banks
        check_tiles(desk)
        check_refusal(desk)
        check_accumulator(desk)
        desk.take_pictures(FIGURES, "03-")
        desk.check_watch()


def check_tiles(desk: Desk) -> None:
    """Narrower panels are more panels: more steps, and regions elsewhere."""
    assert "16 + 32 panels: 193 steps" in desk.line("explorer")
    before = desk.drawn("explorer", "x")[REGIONS]
    desk.press("explorer", "FFN Nf", "ArrowLeft")  # 32
    desk.wait_for_line("explorer", "32 + 32 panels: 257 steps")
    assert desk.drawn("explorer", "x")[REGIONS] != before
    desk.press("explorer", "rows M", "ArrowLeft")
    desk.wait_for_line("explorer", "row tiles: 2, each of 32 + 32 panels: 514 steps")


def check_refusal(desk: Desk) -> None:
    """Half a MiB holds no such tiles: the line says which region does not fit, and no step is drawn."""
    desk.press("explorer", "VTCM", "Home")
    desk.wait_for_line("explorer", "These tiles don't fit: an expert of H=2048, F=1024 in tiles of 224 rows")
    assert "the region activations takes 917,504 bytes, 524,288 of 524,288 bytes" in desk.line("explorer")
    assert {cell for row in desk.drawn("explorer", "z")[STEPS][1] for cell in row} == {None}
    refused = desk.drawn("explorer", "z")
    desk.press("explorer", "VTCM", "End")
    desk.wait_for_drawing("explorer", refused, "z")
    desk.wait_for_line("explorer", "514 steps")
    assert {cell for row in desk.drawn("explorer", "z")[STEPS][1] for cell in row} != {None}


def check_accumulator(desk: Desk) -> None:
    """The next group of products, and another profile."""
    desk.press("accumulator", "group")
    desk.wait_for_line("accumulator", "Group 2 of 24 (k = 8 … 15)")
    desk.cell("accumulator").locator("select").select_option("hmx_v73_g4")
    desk.wait_for_line("accumulator", "Group 3 of 48 (k = 8 … 11)")
    desk.cell("accumulator").locator("select").select_option("ieee_fp32")
    desk.wait_for_line("accumulator", "Group 9 of 192 (k = 8)")
