from typing import Any

import pytest

from estream_lab.errors import EStreamError
from estream_lab.notebooks import Parameter, check_values, declared

from .make import notebook

KNOWN = declared(notebook(), "lesson")


def test_types_come_from_the_annotation_or_the_default() -> None:
    assert {
        "tokens": Parameter("tokens", "int", 8),
        "fast": Parameter("fast", "bool", False),
        "share": Parameter("share", "float", 0.5),
        "prompt": Parameter("prompt", "str", "a"),
    } == KNOWN
    limit = declared(notebook(parameters='"""Knobs."""\nlimit: float = -2'), "lesson")["limit"]
    assert (limit.kind, limit.default, type(limit.default)) == ("float", -2.0, float)
    assert declared(notebook(parameters=None), "lesson") == {}


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("fast: bool = 0", "declared bool"),
        ("tokens: int = 1.0", "declared int"),
        ("share: float = True", "declared float"),
        ("when: date = 1", "a date"),
        ("names = [1]", "a list"),
        ("tokens: int = max(1, 2)", "declared int"),
        ("import os", "line 1"),
        ("a = 1\nb = c = 2", "line 2"),
        ("tokens: int", "line 1"),
        ("tokens =", "no Python"),
        ("tokens = 5\0", "no Python"),
        ("tokens = " + "-" * 5000 + "1", "of lesson"),  # too deep for Python 3.11's parser, no plain value to 3.13's
    ],
)
def test_a_cell_that_says_anything_else_is_refused(cell: str, message: str) -> None:
    with pytest.raises(EStreamError, match=message) as caught:
        declared(notebook(parameters=cell), "lesson")
    assert "lesson" in str(caught.value)


def test_tags_that_are_no_list_are_none() -> None:
    made = notebook(parameters=None)
    made.cells[0].metadata["tags"] = 5
    assert declared(made, "lesson") == {}


def test_two_parameter_cells_are_refused() -> None:
    made = notebook()
    made.cells.append(made.cells[1])
    with pytest.raises(EStreamError, match="2 cells"):
        declared(made, "lesson")


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("tokens", 3, 3),
        ("tokens", "3", 3),
        ("fast", True, True),
        ("fast", "false", False),
        ("fast", "true", True),
        ("share", 2, 2.0),
        ("share", "0.25", 0.25),
        ("prompt", "false", "false"),
    ],
)
def test_values_arrive_with_the_declared_type(name: str, given: Any, wanted: Any) -> None:
    found = check_values(KNOWN, {name: given}, "lesson")[name]
    assert (found, type(found)) == (wanted, type(wanted))


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("tokens", True),
        ("tokens", 3.0),
        ("tokens", "3.0"),
        ("fast", 1),
        ("fast", "False"),
        ("fast", "0"),
        ("share", True),
        ("share", "half"),
        ("prompt", 3),
        ("prompt", None),
    ],
)
def test_another_type_is_refused(name: str, given: Any) -> None:
    with pytest.raises(EStreamError, match=f"Parameter {name} of lesson"):
        check_values(KNOWN, {name: given}, "lesson")


def test_a_mistyped_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(EStreamError, match="no parameter token; its parameters: tokens, fast, share, prompt"):
        check_values(KNOWN, {"token": 3, "fast": True}, "lesson")
