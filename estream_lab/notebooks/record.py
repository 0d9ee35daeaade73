"""Figures that a notebook hands to whoever runs it."""

from __future__ import annotations

import json
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from estream_lab.errors import EStreamError

if TYPE_CHECKING:
    from nbformat import NotebookNode  # takes seconds to load, and a lesson needs none of it

RECORD_MIME = "application/vnd.estream.record+json"
LINE = 110  # characters that are shown of a figure; all of it is recorded


def record(name: str, value: Any) -> None:
    """Record a JSON-able `value` under `name`, from within a notebook: shown as a line, read back by `run`.

    NumPy scalars are taken as numbers. Raises `EStreamError` for a value that JSON cannot carry (NaN included).
    """
    from IPython.display import display  # only a notebook needs it

    plain = value.item() if hasattr(value, "item") else value
    try:
        text = json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise EStreamError(f"Cannot record {name}: {error}; record numbers, text, lists or dicts of them.") from error
    bundle = {
        RECORD_MIME: {"name": name, "value": json.loads(text)},
        "text/plain": shorten(f"{name} = {text}", LINE, placeholder=" …"),
    }
    display(bundle, raw=True)  # type: ignore[no-untyped-call]


def records_of(notebook: NotebookNode, name: str) -> dict[str, Any]:
    """What the cells of an executed notebook (shown as `name` in errors) recorded, in order.

    Raises `EStreamError` where one name was recorded twice: the reader could not tell which is meant.
    """
    found: dict[str, Any] = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            item = output.get("data", {}).get(RECORD_MIME)
            if item is None:
                continue
            if item["name"] in found:
                raise EStreamError(f"{name} records {item['name']} twice; give each figure a name of its own.")
            found[item["name"]] = item["value"]
    return found
