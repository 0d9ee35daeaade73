"""Every configuration of a model: time against memory, and what a configurator chose."""

from collections.abc import Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from estream_lab.trace import Provenance
from estream_lab.tuning.paper.configurations import LATENCY, Swept
from estream_lab.tuning.paper.marks import KINDS, NOTED, PUBLISHED, Mark
from estream_lab.viz.figures.kinds import KIND_COLOURS, SYMBOLS, hover
from estream_lab.viz.figures.theme import GREY, PANEL_TITLE, SEQUENCE, dress, provenance_line

COLUMNS = 2
DASHES = {1: "dot", 2: "solid"}


def configuration_curves(swept: Sequence[Swept], marks: Sequence[Mark], provenance: Provenance) -> go.Figure:
    """A panel for each model: a curve for each G and Q over its numbers of banks, the choices, and published latencies.

    A published point has no published memory: it stands where the same configuration is simulated.

    Args:
        swept: of each model. marks: of which the published latencies are drawn. provenance: of all.
    """
    rows = -(-len(swept) // COLUMNS)
    titles = [f"{each.title}: {len(each.points)} configurations" for each in swept]
    figure = make_subplots(
        rows=rows, cols=min(COLUMNS, len(swept)), subplot_titles=titles, vertical_spacing=0.2, horizontal_spacing=0.1
    )
    figure.update_annotations(font_size=13)
    for number, each in enumerate(swept):
        place = {"row": number // COLUMNS + 1, "col": number % COLUMNS + 1}
        for trace in (*_curves(each, number == 0), _choices(each, number == 0), *_published(each, marks)):
            figure.add_trace(trace, **place)
    figure.update_xaxes(title_text="peak memory, GiB", title_font_size=12, nticks=6)
    figure.update_yaxes(title_text="seconds a request", title_font_size=12)
    return dress(
        figure, "Time against memory of every configuration", provenance_line(provenance), 240 * rows + 70 * (rows - 1),
        PANEL_TITLE,
    )  # fmt: skip


def _curves(swept: Swept, legend: bool) -> list[go.Scatter]:
    curves = []
    sizes = sorted({point.configuration.group_size for point in swept.points})
    for depth, dash in DASHES.items():
        for rank, size in enumerate(sizes):
            points = [
                point
                for point in swept.points
                if (point.configuration.queue_depth, point.configuration.group_size) == (depth, size)
            ]
            if not points:
                continue
            factor = "" if rank == 0 else f"{2**rank} "
            curves.append(
                go.Scatter(
                    x=[point.peak_bytes / 2**30 for point in points],
                    y=[point.seconds for point in points],
                    mode="lines+markers",
                    line={"color": SEQUENCE[rank], "dash": dash, "width": 1.5},
                    marker={"symbol": [SYMBOLS[point.kind] for point in points], "size": 6},
                    name=f"G={factor}g₀, Q={depth}",
                    legendgroup=f"{rank} {depth}",
                    showlegend=legend,
                    hovertemplate=[
                        f"<b>{point.configuration.told}</b><br>%{{y:.3f}} s, %{{x:.2f}} GiB<br>{point.kind}: "
                        f"{KINDS[point.kind]}<extra></extra>"
                        for point in points
                    ],
                )
            )
    return curves


def _choices(swept: Swept, legend: bool) -> go.Scatter:
    return go.Scatter(
        x=[choice.chosen.peak_bytes / 2**30 for choice in swept.choices],
        y=[choice.chosen.seconds for choice in swept.choices],
        mode="markers",
        marker={"symbol": "circle-open", "size": 16, "color": GREY, "line": {"width": 2}},
        name="chosen for a budget",
        legendgroup="chosen",
        showlegend=legend,
        hovertemplate=[
            f"<b>{choice.budget.name} budget</b>: {choice.chosen.configuration.told}<br>%{{y:.3f}} s, "
            f"{100 * choice.regret:.2f} % slower than the fastest that fits, {choice.fastest.configuration.told}"
            "<extra></extra>"
            for choice in swept.choices
        ],
    )


def _published(swept: Swept, marks: Sequence[Mark]) -> list[go.Scatter]:
    """Latencies that others have of the same configurations; a trace for each kind."""
    memory = {f"{swept.title}, {point.configuration.told}": point.peak_bytes for point in swept.points}
    theirs = [mark for mark in marks if mark.quantity == LATENCY and mark.of in memory]
    found = []
    for kind in (PUBLISHED, NOTED):
        chosen = [mark for mark in theirs if mark.kind == kind]
        if chosen:
            found.append(
                go.Scatter(
                    x=[memory[mark.of] / 2**30 for mark in chosen],
                    y=[mark.value for mark in chosen],
                    mode="markers",
                    marker={"symbol": SYMBOLS[kind], "size": 10, "color": KIND_COLOURS[kind]},
                    name=kind,
                    hovertemplate=[hover(mark) for mark in chosen],
                )
            )
    return found
