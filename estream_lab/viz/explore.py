"""Live explorers: thin widgets around the engine and the figures."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine, PrefillResult
from estream_lab.errors import EStreamError
from estream_lab.experts.schedule import POLICIES
from estream_lab.streaming import Store
from estream_lab.viz.figures import timeline
from estream_lab.viz.figures.theme import mebibytes, milliseconds

BANDWIDTHS = (0.0, 5, 10, 20, 40, 80, 160, 320)
"""Declared read bandwidths that a slider offers, in MB/s; 0 sets no limit."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the sliders say: schedule, G, B, Q and the declared read bandwidth in bytes/s (0: no limit)."""

    schedule: str = "early"
    group_size: int = 4
    banks: int = 2
    queue_depth: int = 2
    read_bandwidth: float = 0.0


@dataclass(frozen=True, slots=True)
class Exploration:
    """A choice, the run that it gave, and what is shown of it."""

    choice: Choice
    result: PrefillResult
    figure: go.Figure
    line: str


def explore(
    store: Store | Path | str, tokens: Sequence[int] | NDArray[np.int32], choice: Choice, repeats: int = 1
) -> Exploration:
    """Prefill `tokens` as `choice` says and draw the trace.

    Of several runs the one of median time is kept, and its provenance says of how many (`runs`). Raises `EStreamError`
    as the engine does.
    """
    with PrefillEngine.open(
        store,
        schedule=choice.schedule,
        group_size=choice.group_size,
        banks=choice.banks,
        queue_depth=choice.queue_depth,
        read_bandwidth=choice.read_bandwidth or None,
    ) as engine:
        results = sorted((engine.prefill(tokens) for _ in range(repeats)), key=lambda result: result.seconds)
    result = results[len(results) // 2]
    if repeats > 1:
        trace = replace(result.trace, provenance={**result.trace.provenance, "runs": repeats})
        result = replace(result, trace=trace)
    return Exploration(choice, result, timeline(result.trace), metrics_line(result))


def metrics_line(result: PrefillResult) -> str:
    """The run's figures in one line."""
    return (
        f"G={result.group_size} B={result.banks} Q={result.queue_depth}: {milliseconds(round(result.seconds * 1e9))}, "
        f"arena {mebibytes(result.arena_bytes)}, read {mebibytes(result.bytes_read)}, "
        f"storage idle {result.storage_idle:.1%}, compute idle {result.npu_idle:.1%}, "
        f"logits {result.logits_sha256[:12]}"
    )


def redraw(live: go.FigureWidget, figure: go.Figure) -> None:
    """Show `figure` in `live`, which has as many traces (a timeline always has: one a kind)."""
    with live.batch_update():
        for shown, wanted in zip(live.data, figure.data, strict=True):
            shown.update({key: value for key, value in wanted.to_plotly_json().items() if key != "type"})
        wanted_layout = figure.layout.to_plotly_json()
        live.layout.shapes = wanted_layout.pop("shapes", ())
        live.layout.annotations = wanted_layout.pop("annotations", ())
        live.layout.update(wanted_layout)


def _fit_the_page(live: go.FigureWidget) -> None:
    """Make a live figure as wide as the page, and without the button that sends its data to plotly's server.

    A live figure is drawn before it is in the page, 700 px wide, and with default buttons. Its first message back
    comes when it is there: asked for its own size then, it takes the page's.
    """
    live._config = {"showSendToCloud": False, "responsive": True}

    def drawn(_: object) -> None:
        live.unobserve(drawn, names="_js2py_traceDeltas")
        live.layout.autosize = True

    live.observe(drawn, names="_js2py_traceDeltas")


class PipelineExplorer:
    """Schedule, G, Q, B and a declared read bandwidth on the real trace: moving a slider runs the prefill again.

    Display it with `.widget`. `.figure` is a static picture of the last run, `.last` its figures. Nothing is kept of
    earlier runs.
    """

    def __init__(
        self, store: Store | Path | str, tokens: Sequence[int] | NDArray[np.int32], choice: Choice | None = None
    ) -> None:
        self.store = store if isinstance(store, Store) else Store(Path(store))
        self.tokens = tokens
        self.last = explore(self.store, tokens, choice or Choice())
        self.live = go.FigureWidget(self.last.figure)
        _fit_the_page(self.live)
        self.controls = self._controls(self.last.choice)
        self.line = widgets.HTML(self.last.line)
        for control in self.controls.values():
            control.observe(self._moved, names="value")
        self.widget = widgets.VBox([widgets.HBox(list(self.controls.values()), layout=WRAP), self.line, self.live])

    def _controls(self, choice: Choice) -> dict[str, Any]:
        experts = self.store.spec.experts
        sizes = {size for size in range(1, experts + 1) if experts % size == 0} | {choice.group_size}
        speeds = {limit * 1e6 for limit in BANDWIDTHS} | {choice.read_bandwidth}
        limits = [(f"{speed / 1e6:g} MB/s" if speed else "no limit", speed) for speed in sorted(speeds)]
        slider = {"continuous_update": False, "layout": NARROW}
        return {
            "schedule": widgets.Dropdown(
                options=list(POLICIES), value=choice.schedule, description="schedule", layout=NARROW
            ),
            "group_size": widgets.SelectionSlider(
                options=sorted(sizes), value=choice.group_size, description="G", **slider
            ),
            "banks": widgets.IntSlider(choice.banks, 1, max(experts, choice.banks), description="B", **slider),
            "queue_depth": widgets.IntSlider(
                choice.queue_depth, 1, max(4, choice.queue_depth), description="Q", **slider
            ),
            "read_bandwidth": widgets.SelectionSlider(
                options=limits, value=choice.read_bandwidth, description="reads ≤", **slider
            ),
        }

    @property
    def figure(self) -> go.Figure:
        """The last run's timeline as a static figure."""
        return self.last.figure

    @property
    def choice(self) -> Choice:
        """What the controls say now."""
        return Choice(**{name: control.value for name, control in self.controls.items()})

    def _moved(self, _: object) -> None:
        self.line.value = "running …"
        try:
            self.last = explore(self.store, self.tokens, self.choice)
        except EStreamError as error:
            self.line.value = f"<b>{error}</b>"
            return
        redraw(self.live, self.last.figure)
        self.line.value = self.last.line


WRAP = {"flex_flow": "row wrap"}
NARROW = {"width": "270px"}
