"""The pipeline explorer: schedule, G, Q, B and a declared read bandwidth on the real trace."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import ipywidgets as widgets
import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillResult
from estream_lab.experts.schedule import POLICIES
from estream_lab.streaming import Store
from estream_lab.viz.explore.base import Explorer, Picture, named
from estream_lab.viz.explore.measure import measure
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
class Exploration(Picture):
    """A choice, the run that it gave, and the picture of it."""

    choice: Choice = field(kw_only=True)
    result: PrefillResult = field(kw_only=True)


def explore(
    store: Store | Path | str, tokens: Sequence[int] | NDArray[np.int32], choice: Choice, repeats: int = 1
) -> Exploration:
    """Prefill `tokens` as `choice` says and draw the trace.

    Of several runs the one of median time is kept, and its provenance says of how many (`runs`). Raises `EStreamError`
    as the engine does.
    """
    settings = {**asdict(choice), "read_bandwidth": choice.read_bandwidth or None}
    result = measure(store, tokens, {"": settings}, repeats)[""]
    return Exploration(timeline(result.trace), metrics_line(result), choice=choice, result=result)


def metrics_line(result: PrefillResult) -> str:
    """The run's figures in one line."""
    return (
        f"G={result.group_size} B={result.banks} Q={result.queue_depth}: {milliseconds(round(result.seconds * 1e9))}, "
        f"arena {mebibytes(result.arena_bytes)}, read {mebibytes(result.bytes_read)}, "
        f"storage idle {result.storage_idle:.1%}, compute idle {result.npu_idle:.1%}, "
        f"logits {result.logits_sha256[:12]}"
    )


class PipelineExplorer(Explorer):
    """Schedule, G, Q, B and a declared read bandwidth on the real trace: moving a slider runs the prefill again.

    `.last` is the last `Exploration`. Nothing is kept of earlier runs.
    """

    busy = "running …"

    def __init__(
        self, store: Store | Path | str, tokens: Sequence[int] | NDArray[np.int32], choice: Choice | None = None
    ) -> None:
        self.store = store if isinstance(store, Store) else Store(Path(store))
        self.tokens = tokens
        super().__init__(self._controls(choice or Choice()))

    @property
    def choice(self) -> Choice:
        """What the controls say now."""
        return Choice(**self.values)

    def picture(self, *args: Any, **values: Any) -> Exploration:
        """A prefill under that choice, and its timeline."""
        return explore(self.store, self.tokens, Choice(**values))

    def _controls(self, choice: Choice) -> dict[str, Any]:
        experts = self.store.spec.experts
        sizes = {size for size in range(1, experts + 1) if experts % size == 0} | {choice.group_size}
        speeds = {limit * 1e6 for limit in BANDWIDTHS} | {choice.read_bandwidth}
        limits = [(f"{speed / 1e6:g} MB/s" if speed else "no limit", speed) for speed in sorted(speeds)]
        late = {"continuous_update": False}  # a run takes its time: one when the slider is let go
        return {
            "schedule": named(widgets.Dropdown(options=list(POLICIES), value=choice.schedule), "schedule"),
            "group_size": named(widgets.SelectionSlider(options=sorted(sizes), value=choice.group_size, **late), "G"),
            "banks": named(widgets.IntSlider(choice.banks, 1, max(experts, choice.banks), **late), "B"),
            "queue_depth": named(widgets.IntSlider(choice.queue_depth, 1, max(4, choice.queue_depth), **late), "Q"),
            "read_bandwidth": named(
                widgets.SelectionSlider(options=limits, value=choice.read_bandwidth, **late), "reads ≤"
            ),
        }
