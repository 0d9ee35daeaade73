"""Lesson 02 in a real JupyterLab: run to its end, a route clicked, sliders moved, looked at in both themes."""

from pathlib import Path

from .desk import NOTEBOOKS, Desk, open_notebook

LESSON = NOTEBOOKS / "02_slot_compaction.ipynb"
FIGURES = ["steps", "addresses", "real", "edges", "explorer", "static"]
PSI, RECORDS, RING, RECORD_RING, READS = 0, 1, 2, 3, 7  # traces of the explorer


def test_the_lesson_runs_is_clicked_and_is_readable(tmp_path: Path) -> None:
    with open_notebook(LESSON, tmp_path) as desk:
        desk.run_all()
        desk.check_outputs(FIGURES)
        assert "swap_changes_no_bit = true" in desk.cell("swapped").inner_text()
        check_clicks(desk)
        check_sliders(desk)
        desk.take_pictures(FIGURES, "02-")
        desk.check_watch()


def check_clicks(desk: Desk) -> None:
    """A click on a route, in either panel, tells where that route reads and writes, and moves the slider there."""
    order = desk.drawn("explorer", "y")[RECORDS][1]
    for route in (order[-1], order[0]):
        desk.click_point("explorer", PSI, route)
        desk.wait_for_line("explorer", f"route {route}: token {route // 2} → expert ")
        line = desk.line("explorer")
        row = f"{768 * (route // 2):,}"
        assert f"Reads X at p_X + {route // 2} · 768 = {row}; gate " in line
        assert f"adds to Y at p_Y + {route // 2} · 768 = {row}." in line
        assert desk.slider("explorer", "route i").get_attribute("aria-valuenow") == f"{route:.1f}"
        desk.wait_for_trace("explorer", RING, "x", [route])
    desk.click_point("explorer", RECORDS, 1)
    desk.wait_for_line("explorer", f"route {order[1]}: ")
    desk.wait_for_trace("explorer", RECORD_RING, "x", [1])


def check_sliders(desk: Desk) -> None:
    """Route, capacity, bank and tokens by the keyboard."""
    route = int(float(desk.slider("explorer", "route i").get_attribute("aria-valuenow") or "-1"))
    desk.press("explorer", "route i")
    desk.wait_for_line("explorer", f"route {route + 1}: ")
    desk.wait_for_trace("explorer", RING, "x", [route + 1])
    for label in ("capacity C", "bank", "tokens T"):
        before = desk.drawn("explorer", "x", "y")
        desk.press("explorer", label)
        desk.wait_for_drawing("explorer", before, "x", "y")
    assert len(desk.drawn("explorer", "x")[PSI][1]) == 2 * 17
    bound = desk.drawn("explorer", "y")[RECORDS][1][0]
    desk.click_point("explorer", PSI, bound)
    desk.wait_for_line("explorer", f"route {bound}: ")  # what the pictures show
