"""Routes as comma-separated values: ``layer,token,k,expert,weight``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from estream_lab.errors import EStreamError
from estream_lab.routing.lines import INT32_MAX, Line, routes_of
from estream_lab.routing.routes import Routes

COLUMNS = ("layer", "token", "k", "expert", "weight")


def csv_lines(layers: Mapping[int, Routes]) -> Iterator[str]:
    """The lines of a file, without line ends."""
    yield ",".join(COLUMNS)
    for layer, routes in layers.items():
        if not len(routes):
            raise EStreamError(f"Layer {layer} has no routes, which .csv cannot say: leave the layer out.")
        first = np.searchsorted(routes.token, routes.token)  # index of each token's first route
        places = np.arange(len(routes)) - first
        columns = (routes.token.tolist(), places.tolist(), routes.expert.tolist(), routes.weight.tolist())
        for token, place, expert, weight in zip(*columns, strict=True):
            yield f"{layer},{token},{place},{expert},{weight!r}"


def parse_csv(path: Path, lines: list[str], experts: int | None) -> dict[int, Routes]:
    """Routes of each layer from the lines of a file; errors name `path` and the line."""
    if not lines or tuple(lines[0].rstrip("\r").split(",")) != COLUMNS:
        raise Line(path, 1).error(f"the columns must be {','.join(COLUMNS)}; write this header.")
    layers: dict[int, Routes] = {}
    layer, token, expert, weight = -1, [-1], [-1], [0.0]
    place = 0
    limit = INT32_MAX if experts is None else experts - 1
    for number, text in enumerate(lines[1:], start=2):
        here = Line(path, number)
        row_layer, row_token, row_place, row_expert, row_weight = _row(here, text, limit)
        if row_layer != layer:
            if layer >= 0:
                layers[layer] = routes_of(token[1:], expert[1:], weight[1:])
            if row_layer in layers:
                raise here.error(f"layer {row_layer} comes back after others; keep a layer's rows together.")
            layer, token, expert, weight = row_layer, [-1], [-1], [0.0]
        if row_token < token[-1]:
            raise here.error(f"token {row_token} follows token {token[-1]}; sort the rows of a layer by token, then k.")
        place = place + 1 if row_token == token[-1] else 0
        if row_place != place:
            raise here.error(f"k is {row_place} where {place} is due: a row is missing, doubled or out of order.")
        token.append(row_token)
        expert.append(row_expert)
        weight.append(row_weight)
    if layer >= 0:
        layers[layer] = routes_of(token[1:], expert[1:], weight[1:])
    return layers


def _row(here: Line, text: str, expert_limit: int) -> tuple[int, int, int, int, float]:
    cells = text.rstrip("\r").split(",")
    if len(cells) != len(COLUMNS):
        raise here.error(f"{len(cells)} columns where {len(COLUMNS)} are due ({','.join(COLUMNS)}).")
    layer, token, place, expert = (
        here.whole(_number(int, cell), name, expert_limit if name == "expert" else INT32_MAX)
        for name, cell in zip(COLUMNS[:4], cells, strict=False)
    )
    return layer, token, place, expert, here.weight(_number(float, cells[4]), "weight")


def _number(kind: type[int] | type[float], cell: str) -> int | float | str:
    """The cell as a number, or as it stands if it is none: the caller's check then quotes it."""
    try:
        return cell if "_" in cell else kind(cell)  # Python would read 1_0 as 10
    except ValueError:
        return cell
