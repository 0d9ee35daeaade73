"""Outputs of executed notebooks, without the state of widgets.

A live figure's state carries a script of 5 MB and shows nothing without a kernel.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from estream_lab.errors import EStreamError

if TYPE_CHECKING:
    from nbformat import NotebookNode  # takes seconds to load, and a lesson needs none of it

VIEW_MIME = "application/vnd.jupyter.widget-view+json"
STATE_MIME = "application/vnd.jupyter.widget-state+json"


def strip_widgets(notebook: NotebookNode, name: str) -> None:
    """Remove, in place, widget state and the views that would need it, and papermill's own notes (paths, times).

    Raises `EStreamError` where an output still carries widget state in another form (embedded HTML, say), naming the
    cell, counted from 1.
    """
    notebook.metadata.pop("widgets", None)
    notebook.metadata.pop("papermill", None)
    for number, cell in enumerate(notebook.cells, 1):
        cell.metadata.pop("papermill", None)
        if cell.cell_type != "code":
            continue
        for output in cell.outputs:
            if VIEW_MIME in output.get("data", {}):
                del output.data[VIEW_MIME]
                output.data.setdefault("text/plain", "(a live widget)")
        if STATE_MIME in json.dumps(cell.outputs):
            raise EStreamError(f"{name}, cell {number}: its output carries widget state; show a static figure instead.")
