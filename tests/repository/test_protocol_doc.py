"""docs/protocol.md tells what the exploration finds today."""

from pathlib import Path

from tools.protocol_table import rule_rows

DOC = Path(__file__).parents[2] / "docs" / "protocol.md"


def test_the_table_of_rules_is_the_one_that_the_exploration_gives() -> None:
    text = DOC.read_text(encoding="utf-8")
    assert [row for row in rule_rows() if row not in text] == []
