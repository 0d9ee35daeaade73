"""The typed `parameters` cell of a notebook, and values checked against it before anything runs.

papermill itself runs a notebook with a mistyped name or type; a lesson then shows something other than what was asked.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from estream_lab.errors import EStreamError

if TYPE_CHECKING:
    from nbformat import NotebookNode  # takes seconds to load, and a lesson needs none of it

Value = bool | int | float | str
TYPES: dict[str, type[bool] | type[int] | type[float] | type[str]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
}
TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A name that the `parameters` cell assigns; `kind` is `bool`, `int`, `float` or `str`."""

    name: str
    kind: str
    default: Value


def declared(notebook: NotebookNode, name: str) -> dict[str, Parameter]:
    """The parameters of `notebook` (shown as `name` in errors); none where it has no cell with that tag.

    The cell holds only lines such as `fast: bool = False` or `tokens = 512`. The type is the annotation's, else the
    default's. Raises `EStreamError` for anything else in the cell, for two such cells, for a default of another type.
    """
    cells = [cell for cell in notebook.cells if "parameters" in tags_of(cell)]
    if len(cells) > 1:
        raise EStreamError(f"{name} has {len(cells)} cells with the tag 'parameters'; keep one.")
    if not cells:
        return {}
    try:
        statements = ast.parse(cells[0].source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last: brackets nested too deep
        line = f" (line {error.lineno})" if isinstance(error, SyntaxError) and error.lineno else ""
        raise EStreamError(f"The parameters cell of {name} is no Python{line}; mend it.") from error
    if statements and _is_docstring(statements[0]):
        statements = statements[1:]
    parameters = [_parameter(statement, name) for statement in statements]
    return {parameter.name: parameter for parameter in parameters}


def tags_of(cell: NotebookNode) -> list[str]:
    """The cell's tags; anything but a list of them counts as none."""
    tags = cell.metadata.get("tags")
    return tags if isinstance(tags, list) else []


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _parameter(statement: ast.stmt, notebook: str) -> Parameter:
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id=kind), value=ast.expr() as value):
            annotated: str | None = kind
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            annotated = None
        case _:
            raise EStreamError(
                f"The parameters cell of {notebook}, line {statement.lineno}: write only lines `name: type = value`."
            )
    try:
        default = ast.literal_eval(value)
    except ValueError:
        default = None
    kind = annotated or type(default).__name__
    if kind not in TYPES:
        raise EStreamError(f"Parameter {name} of {notebook} is a {kind}; use one of {', '.join(TYPES)}.")
    if type(default) is not TYPES[kind] and not (kind == "float" and type(default) is int):
        raise EStreamError(f"Parameter {name} of {notebook} is declared {kind}, but its default is not; mend the cell.")
    return Parameter(name, kind, TYPES[kind](default))


def check_values(parameters: Mapping[str, Parameter], values: Mapping[str, Value], notebook: str) -> dict[str, Value]:
    """`values` as the notebook's types.

    An integer serves as a float, and text as a command line gives it is read strictly: `true` and `false` only for a
    bool. Raises `EStreamError` for an unknown name or another type.
    """
    unknown = sorted(set(values) - set(parameters))
    if unknown:
        known = ", ".join(parameters) or "none"
        raise EStreamError(f"{notebook} has no parameter {', '.join(unknown)}; its parameters: {known}.")
    return {name: _typed(parameters[name], value, notebook) for name, value in values.items()}


def _typed(parameter: Parameter, value: Value, notebook: str) -> Value:
    kind = parameter.kind
    if type(value) is TYPES[kind]:
        return value
    if kind == "float" and type(value) is int:
        return float(value)
    try:
        if type(value) is str:
            return TRUTH[value] if kind == "bool" else TYPES[kind](value)
    except (KeyError, ValueError):
        pass
    wanted = "true or false" if kind == "bool" else f"of type {kind}"
    raise EStreamError(f"Parameter {parameter.name} of {notebook} is {value!r}, but must be {wanted}.")
