"""What the placement map publishes when, read off a trace."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from estream_lab.trace import Span, Trace
from estream_lab.trace.tracks import origin_ns
from estream_lab.viz.figures.banks import bank_states
from estream_lab.viz.figures.theme import CLEAR, COLOURS, GREY, INK, dress, provenance_line

LOOKS = {
    "filling": ("on its way: no translation", CLEAR, COLOURS["storage"]),
    "ready": ("translated to a slot, ready", COLOURS["ready"], COLOURS["expert"]),
    "in use": ("translated to a slot, in use", COLOURS["expert"], COLOURS["expert"]),
}
ROW = 19  # px


@dataclass(frozen=True, slots=True)
class Stay:
    """An expert in a slot: state (filling, ready or in use), and when, in ns of the trace's clock."""

    expert: int
    slot: int
    state: str
    start_ns: int
    end_ns: int


def stays(trace: Trace, layer: int, order: NDArray[np.int32], group_size: int) -> list[Stay]:
    """Every stay of the layer's experts in a slot.

    Args:
        trace: of a streamed run. layer: its number.
        order: int32 (E,), the layer's experts in file order.
        group_size: G.
    """
    found: list[Stay] = []
    for state in bank_states(trace):
        if state.layer == layer and state.bank is not None and state.group is not None:
            members = order[state.group * group_size :][:group_size].tolist()
            found += [_stay(state, expert, state.bank * group_size + place) for place, expert in enumerate(members)]
    return found


def _stay(state: Span, expert: int, slot: int) -> Stay:
    return Stay(expert, slot, state.name, state.start_ns, state.end_ns)


def placement_map(trace: Trace, layer: int, order: NDArray[np.int32], group_size: int) -> go.Figure:
    """Φ of one layer over time: a row an expert, its slot's number in the bar while the translation is visible.

    Arguments as for `stays`. Times are ms since the request's start, or steps.
    """
    found = stays(trace, layer, order, group_size)
    scale = 1.0 if any(span.clock == "order" for span in trace.spans) else 1e-6
    origin = origin_ns(trace.spans)
    figure = go.Figure()
    for state, (name, fill, line) in LOOKS.items():
        mine = [stay for stay in found if stay.state == state]
        numbers = [f"<b>{stay.slot}</b>" if state == "in use" else "" for stay in mine]
        figure.add_bar(
            orientation="h",
            name=name,
            y=[stay.expert for stay in mine],
            base=[(stay.start_ns - origin) * scale for stay in mine],
            x=[(stay.end_ns - stay.start_ns) * scale for stay in mine],
            text=numbers,
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            constraintext="none",
            textfont={"color": INK, "size": 11},
            customdata=[stay.slot for stay in mine],
            hovertemplate=f"expert %{{y}}, slot %{{customdata}}<br>{name}<extra></extra>",
            marker={"color": fill, "line": {"color": line, "width": 1}},
        )
    figure.update_xaxes(title_text="step" if scale == 1.0 else "ms since the request's start")
    figure.update_yaxes(title_text="expert", dtick=1, range=[len(order) - 0.5, -0.5], showgrid=False, ticks="")
    for edge in range(group_size, len(order), group_size):
        figure.add_hline(y=edge - 0.5, line={"color": GREY, "width": 0.6, "dash": "dot"})
    dress(figure, f"Placement map of layer {layer}", provenance_line(trace.provenance), ROW * len(order))
    return figure.update_layout(bargap=0.14)
