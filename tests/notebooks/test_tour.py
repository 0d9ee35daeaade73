"""The tour as a reader gets it, and as a machine runs it."""

from pathlib import Path

import nbformat
import pytest

from estream_lab.errors import EStreamError
from estream_lab.notebooks import declared, run

TOUR = Path(__file__).parents[2] / "notebooks" / "00_tour.ipynb"
NOTEBOOK = nbformat.read(TOUR, as_version=4)


def test_it_is_short_explained_and_clean() -> None:
    kinds = [cell.cell_type for cell in NOTEBOOK.cells]
    assert len(kinds) <= 25
    assert kinds == ["markdown", "code"] * (len(kinds) // 2)  # a sentence before every cell
    assert all(not cell.outputs and cell.execution_count is None for cell in NOTEBOOK.cells if "outputs" in cell)
    assert set(NOTEBOOK.metadata) == {"kernelspec", "language_info"}


def test_its_parameters_are_typed_and_it_has_no_logic() -> None:
    assert declared(NOTEBOOK, "tour")["fast"].kind == "bool"
    for cell in NOTEBOOK.cells:
        lines = cell.source.splitlines() if cell.cell_type == "code" else []
        assert [line for line in lines if line.startswith(("def ", "class ", "if ", "for ", "while ", " "))] == []


def test_it_runs_and_what_it_records_holds(tmp_path: Path) -> None:
    (result,) = run([TOUR], {"fast": True}, tmp_path).notebooks
    records = result.records
    assert len(set(records["logits_sha256"])) == 1
    assert len(records["logits_sha256"]) == 7
    assert set(records["storage_idle"]) == {"on-demand", "after-routing", "early"}
    assert all(0 <= idle <= 1 for idle in records["storage_idle"].values())
    assert records["arena_bytes"]["resident"] == 8 * records["arena_bytes"]["streamed"]  # 4 layers x 16, against 2 x 4
    assert len(records["top"]) == 5
    assert result.output_bytes < 400_000
    outputs = [o for c in nbformat.read(tmp_path / TOUR.name, as_version=4).cells for o in c.get("outputs", ())]
    assert sum("application/vnd.plotly.v1+json" in o.get("data", {}) for o in outputs) == 8
    assert [o for o in outputs if "text/html" in o.get("data", {})] == []  # nothing that could load a script


def test_a_missing_checkpoint_is_told_with_its_cell_and_line(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match=r"cell 6, line 2 \(`pack.*nowhere is no folder"):
        run([TOUR], {"checkpoint": "nowhere"}, tmp_path)
