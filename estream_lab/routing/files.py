"""Route files: routes of several layers, written and read exactly.

``.csv``: columns ``layer,token,k,expert,weight``, layer by layer, token-major; ``k`` counts a token's routes from 0.

``.jsonl``: one line a layer, as Megatron Core's router trace writes them (`core.transformer.moe.router_trace`): keys
``step, stage, block, layer, rank, num_tokens, topk, top_indices``, the last a list of T lists of k expert ids. We add
``top_weights`` of the same shape. A trace of Megatron itself has no weights: `read_routes` then asks for a stand-in.

Weights are printed as the double that equals the float32, so that reading restores every bit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from estream_lab.errors import EStreamError
from estream_lab.routing.csv_routes import csv_lines, parse_csv
from estream_lab.routing.jsonl_routes import jsonl_lines, parse_jsonl
from estream_lab.routing.lines import Line
from estream_lab.routing.routes import Routes


def write_routes(path: str | os.PathLike[str], layers: Mapping[int, Routes]) -> None:
    """Write the routes of each layer to a ``.csv`` or ``.jsonl`` file.

    The file appears whole or not at all: it is written beside its place and renamed.

    Raises:
        EStreamError: another suffix, routes that the format cannot hold, or a place that cannot be written.
    """
    path = Path(path)
    lines = csv_lines(layers) if _suffix(path) == ".csv" else jsonl_lines(layers)
    try:
        _write_atomically(path, lines)
    except OSError as error:
        raise EStreamError(f"Cannot write routes to {path}: {error.strerror}; choose another place.") from error


def read_routes(
    path: str | os.PathLike[str], *, experts: int | None = None, weight_if_absent: float | None = None
) -> dict[int, Routes]:
    """Read a route file: layer -> routes, in the order of the file.

    Args:
        path: a ``.csv`` or ``.jsonl`` file.
        experts: E, if known: an expert id of E or more is then refused.
        weight_if_absent: the weight of every route of a ``.jsonl`` line without ``top_weights``.

    Raises:
        EStreamError: the file is missing, cut short or malformed; the message names the line.
    """
    path = Path(path)
    suffix = _suffix(path)
    try:
        lines = path.read_bytes().decode("utf-8-sig").split("\n")  # spreadsheets begin with a mark
    except UnicodeDecodeError as error:
        raise EStreamError(f"The route file {path} is not UTF-8 text: check that it is the right file.") from error
    except OSError as error:
        raise EStreamError(f"Cannot read the route file {path}: {error.strerror}; check the path.") from error
    if lines.pop():
        raise Line(path, len(lines) + 1).error("the last line has no end: the file was cut short; copy it again.")
    if suffix == ".csv":
        return parse_csv(path, lines, experts)
    return parse_jsonl(path, lines, experts, weight_if_absent)


def _suffix(path: Path) -> str:
    if path.suffix not in (".csv", ".jsonl"):
        raise EStreamError(f"Routes are kept in .csv or .jsonl files: rename {path} accordingly.")
    return path.suffix


def _write_atomically(path: Path, lines: Iterable[str]) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in lines)
        os.replace(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
