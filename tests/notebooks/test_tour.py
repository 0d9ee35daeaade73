"""The tour as a reader gets it, and as a machine runs it."""

from pathlib import Path

import nbformat
import pytest

from estream_lab.errors import EStreamError
from estream_lab.notebooks import run

from .lessons import NOTEBOOKS, check_form

TOUR = NOTEBOOKS / "00_tour.ipynb"


def test_it_has_the_form_of_a_lesson() -> None:
    check_form(TOUR)


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
