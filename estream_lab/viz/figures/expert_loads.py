"""How many routes each expert of a model gets, from the busiest to the idlest."""

from collections.abc import Mapping

import numpy as np
import plotly.graph_objects as go

from estream_lab.simulate import Workload
from estream_lab.trace import Provenance
from estream_lab.tuning.paper.routes import THRESHOLD
from estream_lab.viz.figures.theme import GREY, SEQUENCE, dress, provenance_line


def expert_loads(workloads: Mapping[str, Workload], provenance: Provenance) -> go.Figure:
    """Routes of the experts of all layers, busiest first, against the share of them that is as busy: a labelled curve
    for each workload, where the routes are synthetic a dashed one.

    The line is where the paper counts an expert as worth the NPU. Experts without routes are below the axis.
    """
    figure = go.Figure()
    for number, (label, workload) in enumerate(workloads.items()):
        counts = np.sort(workload.loads, axis=None)[::-1]  # (layers * E,)
        figure.add_scatter(
            x=100 * np.arange(1, len(counts) + 1) / len(counts),
            y=np.where(counts > 0, counts, np.nan),
            mode="lines",
            line={
                "shape": "vh",
                "width": 2,
                "color": SEQUENCE[number % len(SEQUENCE)],
                "dash": "dash" if workload.origin.startswith("synthetic") else "solid",
            },
            name=label,
            hovertemplate=f"{label}<br>%{{x:.1f}} % of the experts have %{{y}} routes or more<extra></extra>",
        )
    figure.add_hline(y=THRESHOLD, line={"color": GREY, "dash": "dot"})
    figure.add_annotation(
        x=0, xref="paper", y=np.log10(THRESHOLD), text=f"{THRESHOLD} routes", xanchor="left", yanchor="top",
        showarrow=False,
    )  # fmt: skip
    figure.update_xaxes(title_text="experts of all layers, busiest first, %", range=[0, 101])
    figure.update_yaxes(title_text="routes of an expert", type="log", dtick=1)
    return dress(figure, "Routes of the experts", provenance_line(provenance), 320)
