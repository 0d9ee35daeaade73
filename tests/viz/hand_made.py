"""A trace made by hand, and the paper-like worked example of a binding."""

import base64
import json
from typing import Any

import numpy as np
import plotly.graph_objects as go

from estream_lab.experts.binding import Binding, compact
from estream_lab.routing import Routes
from estream_lab.trace import Span, Trace
from estream_lab.viz.explore.base import Explorer
from estream_lab.viz.explore.live import lean

PROVENANCE: dict[str, str | int | float | bool] = {
    "lane": "host",
    "kind": "emulated",
    "machine": "a <fast> machine",
    "model": "tiny",
    "schedule": "early",
    "group_size": 2,
    "banks": 2,
    "queue_depth": 2,
    "tokens": 3,
    "read_bandwidth_bytes_per_second": 20e6,
}
UP = 7 * 10**15  # a host that has been up for months
MS = 1_000_000


def span(unit: str, name: str, start: int, end: int, clock: str = "host", **fields: int) -> Span:
    """A span with times in ms since the request's start."""
    return Span("host", clock, unit, name, UP + start * MS, (end - start) * MS, **fields)


def trace(clock: str = "host") -> Trace:
    """Two layers; reads overlap twice; bank 1 waits ready; the last read is not needed."""
    spans = (
        span("request", "prefill", 0, 30, clock, rows=3),
        span("dense", "embedding", 0, 1, clock),
        span("dense", "attention", 1, 5, clock, layer=0),
        span("storage", "read", 1, 6, clock, layer=0, group=0, bank=0, bytes=4096),
        span("storage", "read", 2, 7, clock, layer=0, group=1, bank=1, bytes=4096),
        span("wait", "wait for group", 5, 6, clock, layer=0, group=0),
        span("expert", "expert group", 6, 9, clock, layer=0, group=0, bank=0, rows=4),
        span("expert", "expert group", 9, 10, clock, layer=0, group=1, bank=1, rows=1),
        span("expert", "expert group", 12, 13, clock, layer=0, group=1, bank=1, rows=1),
        span("dense", "attention", 13, 20, clock, layer=1),
        span("storage", "read", 13, 18, clock, layer=1, group=0, bank=0, bytes=4096),
        span("storage", "read", 18, 22, clock, layer=1, group=1, bank=1, bytes=4096),
        span("expert", "expert group", 20, 28, clock, layer=1, group=0, bank=0, rows=6),
        span("dense", "head", 28, 30, clock),
    )
    return Trace(spans, PROVENANCE)


ROUTES = Routes(
    np.array([0, 0, 1, 1, 2, 2], np.int32),
    np.array([4, 1, 1, 5, 4, 0], np.int32),
    np.array([0.6, 0.4, 0.7, 0.3, 0.5, 0.5], np.float32),
)
PLACEMENT = np.array([0, 1, -1, -1, 2, 3], np.int32)  # worked example C: bank 0 holds group 0, bank 1 group 2


def binding() -> Binding:
    """Worked example C over both banks: c = 1, 2, 2, 1."""
    return compact(ROUTES, PLACEMENT, 0, 4)


def plain(figure: go.Figure) -> dict[str, object]:
    """What is drawn."""
    drawn = figure.to_dict()
    layout = {key: value for key, value in drawn["layout"].items() if value != []}  # no shapes: none, or an empty list
    return {"layout": layout, "data": [{k: _listed(v) for k, v in d.items()} for d in drawn["data"]]}


def _listed(value: Any) -> Any:
    """Arrays, and what plotly writes for them, as lists; a gap in a line (NaN, which equals nothing) as None."""
    if isinstance(value, dict) and "bdata" in value:
        flat = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
        value = flat.reshape([int(n) for n in str(value.get("shape", flat.size)).split(",")])
    if isinstance(value, np.ndarray):
        value = value.tolist()
    return [None if each != each else each for each in value] if isinstance(value, list | tuple) else value


def drawn(explorer: Explorer) -> dict[str, object]:
    """What an explorer's live figure is to show: its last picture, whose title stands above it."""
    return plain(go.Figure(lean(explorer.last.figure)[1]))


def same(explorer: Explorer) -> bool:
    """Whether the live figure shows the last picture; JSON has a null for each gap of a heat map."""
    shown, wanted = explorer.live.shown, go.Figure(lean(explorer.last.figure)[1])
    return bool(json.loads(shown.to_json()) == json.loads(wanted.to_json()))
