"""What every lesson has in common."""

from pathlib import Path
from typing import Any

import nbformat

from estream_lab.notebooks import declared

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SHIPPED = NOTEBOOKS.parent / "data" / "tiny_moe"
PLOTLY = "application/vnd.plotly.v1+json"


def check_form(lesson: Path) -> None:
    """It is short, explained, clean and typed, calls the package and holds no logic of its own."""
    notebook = nbformat.read(lesson, as_version=4)
    kinds = [cell.cell_type for cell in notebook.cells]
    assert len(kinds) <= 25
    assert kinds == ["markdown", "code"] * (len(kinds) // 2)  # a sentence before every cell
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if "outputs" in cell)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert declared(notebook, lesson.stem)["fast"].kind == "bool"
    for cell in notebook.cells:
        lines = cell.source.splitlines() if cell.cell_type == "code" else []
        started = ("def ", "class ", "if ", "for ", "while ", "try")
        assert [line for line in lines if line.startswith(started)] == []


def figures_of(executed: Path) -> list[dict[str, Any]]:
    """The static figures of an executed lesson, in order; none of its outputs could load a script."""
    cells = nbformat.read(executed, as_version=4).cells
    shown = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    assert [data for data in shown if "text/html" in data] == []
    return [data[PLOTLY] for data in shown if PLOTLY in data]
