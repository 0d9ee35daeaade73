"""docs/attribution.md's table of dense weights has the form that its command prints."""

import re
from pathlib import Path

from estream_lab.evaluate.dense import DenseRow
from estream_lab.evaluate.runs import Change
from tools.dense_table import LENGTH, WINDOWS, table
from tools.numerics_table import TEXTS

DOC = Path(__file__).parents[2] / "docs" / "attribution.md"
NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]\d+)?")


def documented() -> list[str]:
    """The lines between the marks."""
    text = DOC.read_text(encoding="utf-8")
    return text[text.index("<!-- dense_table -->") : text.index("<!-- end of dense_table -->")].split("\n")[2:-2]


def test_the_table_has_the_form_that_the_command_prints() -> None:
    change = Change((0,), 0.1, 1e-3, 1e-4, 1e-3, 1e-4, 0.1, 0.01)
    rows = [DenseRow(quant, 1 << 20, 1 << 20, 1.5, change) for quant in ("f16", "q8_0", "q4_0")]
    expected = table(rows, len(TEXTS) * WINDOWS, LENGTH)
    found = documented()
    assert found[:4] == expected[:4]  # the size of the text, and the heading
    assert [NUMBER.sub("0", line) for line in found] == [NUMBER.sub("0", line) for line in expected]
