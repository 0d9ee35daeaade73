"""Notebooks for the tests of the runner."""

from pathlib import Path

import nbformat

PARAMETERS = 'tokens: int = 8\nfast: bool = False\nshare = 0.5\nprompt: str = "a"'


def notebook(*cells: str, parameters: str | None = PARAMETERS) -> nbformat.NotebookNode:
    """A notebook with one markdown cell, the `parameters` cell (unless None) and the code cells."""
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_markdown_cell("A sentence.", id="text")]
    if parameters is not None:
        made.cells.append(nbformat.v4.new_code_cell(parameters, id="parameters", metadata={"tags": ["parameters"]}))
    made.cells += [nbformat.v4.new_code_cell(source, id=f"cell-{i}") for i, source in enumerate(cells)]
    return made


def write(path: Path, *cells: str, parameters: str | None = PARAMETERS) -> Path:
    nbformat.write(notebook(*cells, parameters=parameters), path)
    return path
