"""docs/faults.md holds the table that `make faults` prints where nothing is wrong."""

import re
from collections import Counter
from pathlib import Path

from tests.faults.injection import FAULTS
from tests.faults.matrix import PHASES, cells
from tools.fault_table import expected, table

DOC = Path(__file__).parents[2] / "docs" / "faults.md"
CELL = re.compile(r"(same bits|error|stopped) x (\d+)")


def shown() -> list[list[str]]:
    """The cells of the table between the markers, row by row, the head first."""
    (between,) = re.findall(
        r"<!-- make faults -->\n\n(.*?)\n\n<!-- end of make faults -->", DOC.read_text(encoding="utf-8"), re.DOTALL
    )
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in between.splitlines()]
    assert set(rows.pop(1)) == {"---"}
    return rows


def test_rows_and_columns_are_the_faults_and_the_phases() -> None:
    head, *rows = shown()
    assert head == ["fault", *(phase.name for phase in PHASES)]
    assert [row[0] for row in rows] == [fault().name for fault in FAULTS]
    assert {len(row) for row in rows} == {len(head)}


def test_each_outcome_is_the_one_that_the_fault_expects_in_every_run() -> None:
    (_, *columns), *rows = shown()
    runs = Counter((cell.fault().name, cell.phase.name) for cell in cells(FAULTS))
    outcomes = {fault().name: fault().outcome for fault in FAULTS}
    for name, *row in rows:
        for phase, text in zip(columns, row, strict=True):
            found = CELL.fullmatch(text)
            assert found and found.groups() == (outcomes[name], str(runs[name, phase])), (name, phase, text)


def test_the_tool_prints_what_the_page_shows() -> None:
    assert "\n".join(table(expected())) in DOC.read_text(encoding="utf-8")


def test_the_page_says_how_many_runs_there_are() -> None:
    text = DOC.read_text(encoding="utf-8")
    assert f"{len(list(cells(FAULTS)))} runs" in text


def test_a_run_that_goes_wrong_is_printed_as_wrong() -> None:
    found = {key: Counter(outcomes) for key, outcomes in expected().items()}
    found["EIO", "drain"] = Counter({"error": 2, "WRONG": 1})
    (changed,) = set(table(found)) - set(table(expected()))
    assert "error x 2, WRONG x 1" in changed
