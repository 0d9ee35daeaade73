"""What a run holds in memory."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import plotly.graph_objects as go

from estream_lab.trace import Provenance, Trace
from estream_lab.viz.figures.theme import SEQUENCE, dress, mebibytes, provenance_line, shared

NAMES = {
    "arena": "expert arena",
    "weights": "other weights",
    "kv": "KV cache",
    "activations": "activations",
    "kernels": "kernel scratch",
    "interpreter": "interpreter",
    "unaccounted": "unaccounted",
}
"""The parts of a process's memory, in the order in which they are stacked."""

PROCESS = ("interpreter", "unaccounted")


class Held(Protocol):
    """What a run held: `PrefillResult` says it."""

    @property
    def memory(self) -> Mapping[str, int]: ...  # noqa: D102
    @property
    def trace(self) -> Trace: ...  # noqa: D102


def run_memory(runs: Mapping[str, Held], *, process: bool = False) -> go.Figure:
    """What labelled runs hold: what the model asks for or, with ``process``, all that was resident at the peak.

    The interpreter's part is the same for every model, and far more than a small one's: without it, models compare.
    """
    parts = {part: name for part, name in NAMES.items() if process or part not in PROCESS}
    # A part that was planned and not all touched leaves less than nothing over: nothing is drawn for it.
    rows = [
        (label, {name: max(0, run.memory.get(part, 0)) for part, name in parts.items()}) for label, run in runs.items()
    ]
    return memory_bars(rows, shared([run.trace.provenance for run in runs.values()]))


def memory_bars(rows: Sequence[tuple[str, Mapping[str, int]]], provenance: Provenance) -> go.Figure:
    """One bar a row, `(label, {part: bytes})`, stacked by part; rows come from top to bottom, totals at the end."""
    parts = list(dict.fromkeys(part for _, sizes in rows for part in sizes))
    labels = [label for label, _ in rows]
    figure = go.Figure()
    for part, colour in zip(parts, SEQUENCE, strict=False):
        sizes = [row.get(part, 0) for _, row in rows]
        figure.add_bar(
            y=labels,
            x=[size / 2**20 for size in sizes],
            orientation="h",
            name=part,
            marker_color=colour,
            customdata=[mebibytes(size) for size in sizes],
            hovertemplate=f"%{{y}}<br>{part}: %{{customdata}}<extra></extra>",
        )
    totals = [sum(sizes.values()) for _, sizes in rows]
    for label, total in zip(labels, totals, strict=True):
        figure.add_annotation(
            x=total / 2**20, y=label, text=f"<b>{mebibytes(total)}</b>", xanchor="left", showarrow=False, xshift=6
        )
    figure.update_xaxes(title_text="MiB", range=[0, max(totals) / 2**20 * 1.15])
    figure.update_yaxes(autorange="reversed", showgrid=False)
    dress(figure, "Memory", provenance_line(provenance), 40 + 52 * len(rows))
    return figure.update_layout(barmode="stack", legend_traceorder="normal")
