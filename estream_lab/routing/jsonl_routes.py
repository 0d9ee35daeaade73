"""Routes as JSON lines, one a layer, in the form of Megatron Core's router trace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from estream_lab.errors import EStreamError
from estream_lab.routing.lines import INT32_MAX, Line
from estream_lab.routing.routes import Routes

REQUIRED = ("layer", "num_tokens", "topk", "top_indices")


def jsonl_lines(layers: Mapping[int, Routes]) -> Iterator[str]:
    """The lines of a file, without line ends.

    Raises:
        EStreamError: a layer whose tokens do not all have the same number of routes.
    """
    for layer, routes in layers.items():
        tokens = int(routes.token[-1]) + 1 if len(routes) else 0
        top_k = len(routes) // tokens if tokens else 0
        if not np.array_equal(routes.token, np.repeat(np.arange(tokens), top_k)):
            raise EStreamError(
                f"The tokens of layer {layer} do not all have the same number of routes, which .jsonl cannot say:"
                " write .csv instead."
            )
        record = {
            "step": 0,
            "stage": "pre_dispatch",
            "block": "decoder",
            "layer": layer,
            "rank": 0,
            "num_tokens": tokens,
            "topk": top_k,
            "top_indices": routes.expert.reshape(tokens, top_k).tolist(),
            "top_weights": routes.weight.reshape(tokens, top_k).tolist(),
        }
        yield json.dumps(record, separators=(",", ":"))


def parse_jsonl(path: Path, lines: list[str], experts: int | None, weight_if_absent: float | None) -> dict[int, Routes]:
    """Routes of each layer from the lines of a file; errors name `path` and the line."""
    layers: dict[int, Routes] = {}
    for number, text in enumerate(lines, start=1):
        here = Line(path, number)
        record = _record(here, text)
        layer = here.whole(record["layer"], "layer")
        if layer in layers:
            raise here.error(f"layer {layer} comes twice; keep one step of one rank in a file.")
        layers[layer] = _routes(here, record, experts, weight_if_absent)
    return layers


def _record(here: Line, text: str) -> dict[str, Any]:
    try:
        record = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise here.error(f"this is not JSON ({error}); write one JSON object a line.") from error
    if not isinstance(record, dict):
        raise here.error("this is not a JSON object; write one object a layer.")
    missing = [key for key in REQUIRED if key not in record]
    if missing:
        raise here.error(f"{', '.join(missing)} missing: a router trace line has {', '.join(REQUIRED)}.")
    if record.get("block", "decoder") != "decoder":
        raise here.error(f"block is {record['block']!r}: only decoder layers have routes here; leave the line out.")
    return record


def _routes(here: Line, record: dict[str, Any], experts: int | None, weight_if_absent: float | None) -> Routes:
    tokens, top_k = here.whole(record["num_tokens"], "num_tokens"), here.whole(record["topk"], "topk")
    expert_limit = INT32_MAX if experts is None else experts - 1
    ids = [here.whole(e, "an expert of top_indices", expert_limit) for e in _flat(here, record, "top_indices")]
    if "top_weights" in record:
        weights = [here.weight(w, "a weight of top_weights") for w in _flat(here, record, "top_weights")]
    elif weight_if_absent is None:
        raise here.error(
            "top_weights missing: Megatron's trace has none; read the file with weight_if_absent=1/topk if only the"
            " counts matter."
        )
    else:
        weights = [weight_if_absent] * len(ids)
    shape = (tokens, top_k)
    return Routes.from_topk(np.array(ids, np.int32).reshape(shape), np.array(weights, np.float32).reshape(shape))


def _flat(here: Line, record: dict[str, Any], key: str) -> list[Any]:
    """The T lists of k values under `key` as one list, its shape checked."""
    rows, tokens, top_k = record[key], record["num_tokens"], record["topk"]
    if not isinstance(rows, list) or len(rows) != tokens:
        raise here.error(f"{key} must be a list of num_tokens = {tokens} lists.")
    for token, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != top_k:
            raise here.error(f"{key} of token {token} must be a list of topk = {top_k} values.")
    return [value for row in rows for value in row]
