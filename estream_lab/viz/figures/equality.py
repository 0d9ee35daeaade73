"""The same logits, whatever the schedule and the arena."""

from collections.abc import Sequence
from typing import Protocol

import plotly.graph_objects as go

from estream_lab.trace import Trace
from estream_lab.viz.figures.theme import CLEAR, COLOURS, FAINT, GREY, common_line, dress, mebibytes


class Run(Protocol):
    """What the table shows of a run: `PrefillResult` has it."""

    @property
    def schedule(self) -> str: ...  # noqa: D102
    @property
    def group_size(self) -> int: ...  # noqa: D102
    @property
    def banks(self) -> int: ...  # noqa: D102
    @property
    def queue_depth(self) -> int: ...  # noqa: D102
    @property
    def arena_bytes(self) -> int: ...  # noqa: D102
    @property
    def logits_sha256(self) -> str: ...  # noqa: D102
    @property
    def trace(self) -> Trace: ...  # noqa: D102


def equality_table(runs: Sequence[Run]) -> go.Figure:
    """A row a run, with the SHA-256 of its logits and whether it equals the first run's."""
    same = [run.logits_sha256 == runs[0].logits_sha256 for run in runs]
    columns = {
        "schedule": [run.schedule for run in runs],
        "G": [_streamed(run, run.group_size) for run in runs],
        "B": [_streamed(run, run.banks) for run in runs],
        "Q": [_streamed(run, run.queue_depth) for run in runs],
        "arena": [mebibytes(run.arena_bytes) for run in runs],
        "SHA-256 of the logits": [run.logits_sha256[:24] + "…" for run in runs],
        "equal": ["✓ equal" if equal else "✗ differs" for equal in same],
    }
    verdict = [GREY if equal else COLOURS["wait"] for equal in same]
    table = go.Table(
        columnwidth=[110, 40, 40, 40, 80, 230, 80],
        header={
            "values": [f"<b>{name}</b>" for name in columns],
            "fill_color": FAINT,
            "line_color": FAINT,
            "align": "left",
            "font": {"color": GREY, "size": 13},
            "height": 30,
        },
        cells={
            "values": list(columns.values()),
            "fill_color": CLEAR,
            "line_color": FAINT,
            "align": "left",
            "font": {"color": [*[GREY] * (len(columns) - 1), verdict], "size": 13},
            "height": 28,
        },
    )
    title = "The same logits, bit for bit" if all(same) else "These runs differ"
    figure = dress(go.Figure(table), title, common_line([run.trace for run in runs]), 30 + 28 * len(runs))
    return figure.update_layout(margin={"l": 0, "r": 0, "b": 10}, height=figure.layout.margin.t + 60 + 28 * len(runs))


def _streamed(run: Run, value: int) -> str:
    """A setting that means something only where experts are streamed."""
    return "–" if run.schedule == "resident" else str(value)
