"""The tour in a real JupyterLab: run to its end, moved by hand, looked at in both themes."""

from pathlib import Path

import nbformat

from .desk import NOTEBOOKS, Desk, open_notebook

TOUR = NOTEBOOKS / "00_tour.ipynb"
FIGURES = ["prefill", "routes", "compaction", "timeline", "idle", "memory", "equality", "explorer", "static"]


def test_the_tour_runs_moves_and_is_readable(tmp_path: Path) -> None:
    with open_notebook(TOUR, tmp_path) as desk:
        desk.run_all()
        desk.check_outputs(FIGURES)
        assert "storage_idle = " in desk.cell("static").inner_text()
        check_slider(desk)
        desk.take_pictures(FIGURES)
        desk.check_watch()
    original = nbformat.read(TOUR, as_version=4)
    assert all(not c.get("outputs") and c.get("execution_count") is None for c in original.cells)


def check_slider(desk: Desk) -> None:
    """Moving G by hand runs the prefill again: data, line and values change in the browser."""
    before = desk.drawn("explorer", "x", "base", "y")
    assert desk.line("explorer").startswith("G=4 ")
    desk.press("explorer", "G")
    desk.wait_for_line("explorer", "G=8 ")
    after = desk.drawn("explorer", "x", "base", "y")
    assert after != before
    invocations = {name: len(x) for name, x, _, _ in after}
    assert invocations["experts"] < {name: len(x) for name, x, _, _ in before}["experts"]
