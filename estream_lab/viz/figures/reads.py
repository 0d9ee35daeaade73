"""What was read from storage, and what was in a bank already."""

from collections.abc import Mapping
from typing import Protocol

import plotly.graph_objects as go

from estream_lab.trace import Trace
from estream_lab.viz.figures.memory import memory_bars
from estream_lab.viz.figures.theme import shared


class Run(Protocol):
    """What a run read: `PrefillResult` says it."""

    @property
    def bytes_needed(self) -> int: ...  # noqa: D102
    @property
    def bytes_speculative(self) -> int: ...  # noqa: D102
    @property
    def bytes_kept(self) -> int: ...  # noqa: D102
    @property
    def trace(self) -> Trace: ...  # noqa: D102


def read_bars(runs: Mapping[str, Run]) -> go.Figure:
    """Expert bytes of labelled runs: read and needed, read and then found without routes, kept from before."""
    rows = [
        (
            label,
            {
                "read": run.bytes_needed,
                "read, not needed": run.bytes_speculative,
                "kept in a bank from before": run.bytes_kept,
            },
        )
        for label, run in runs.items()
    ]
    figure = memory_bars(rows, shared([run.trace.provenance for run in runs.values()]))
    return figure.update_layout(title_text="Expert bytes")
