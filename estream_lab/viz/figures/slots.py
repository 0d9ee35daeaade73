"""The states of a slot and the moves between them."""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from estream_lab.experts.residency import SlotState
from estream_lab.trace import Provenance
from estream_lab.viz.figures.theme import COLOURS, FAINT, GREY, INK, dress, faded, provenance_line

AVAILABLE, FILLING, READY, IN_USE = SlotState
LOOKS = {
    AVAILABLE: ("Available", FAINT, GREY),
    FILLING: ("Filling", COLOURS["storage"], INK),
    READY: ("Ready", faded(COLOURS["expert"], 0.15), GREY),
    IN_USE: ("In use", COLOURS["expert"], INK),
}
"""Name, fill and text colour of each state; they stand side by side in this order."""

REASONS = {
    (AVAILABLE, FILLING): "owner recorded",
    (FILLING, READY): "all slices are in:<br>translations<br>appear",
    (READY, IN_USE): "submitted",
    (IN_USE, AVAILABLE): "last completion: translations vanish",
    (READY, AVAILABLE): "no routed work came: translations vanish",
    (IN_USE, READY): "stays for a later pass",
    (READY, READY): "stays, unused",
    (FILLING, AVAILABLE): "after a stop",
}
HALF_WIDTH, HALF_HEIGHT = 0.22, 0.3  # of a state's box

Transitions = Mapping[tuple[SlotState, SlotState], Sequence[str]]


def slot_states(transitions: Transitions, provenance: Provenance) -> go.Figure:
    """The four states and an arrow for each transition, with the moves that make it.

    Args:
        transitions: (state before, state after) to the names of the moves, as `experts.steps.transitions` finds them.
        provenance: where they were found.
    """
    figure = go.Figure()
    for change, moves in transitions.items():
        name, reason = f"<b>{' or '.join(moves)}</b>", REASONS.get(change, "")
        if change[1] == change[0] + 1:
            _straight(figure, change, f"{name}<br>{reason}")
        else:
            _arc(figure, change, f"{name} · {reason}")
    for state, (name, fill, ink) in LOOKS.items():
        box = {"x0": state - HALF_WIDTH, "x1": state + HALF_WIDTH, "y0": -HALF_HEIGHT, "y1": HALF_HEIGHT}
        figure.add_shape(type="rect", **box, fillcolor=fill, line={"color": GREY, "width": 1})
        figure.add_annotation(x=state, y=0, text=f"<b>{name}</b>", showarrow=False, font={"color": ink, "size": 15})
    figure.update_xaxes(visible=False, range=[-0.4, 3.4])
    figure.update_yaxes(visible=False, range=[-2.3, 2.1])
    return dress(figure, "States of a slot", provenance_line(provenance), 380)


def _straight(figure: go.Figure, change: tuple[SlotState, SlotState], text: str) -> None:
    """From one state to the next."""
    start, end = change[0] + HALF_WIDTH, change[1] - HALF_WIDTH
    _head(figure, (end, 0.0), (start, 0.0))
    figure.add_annotation(x=(start + end) / 2, y=0.08, text=text, yanchor="bottom", showarrow=False, font_size=12)


def _arc(figure: go.Figure, change: tuple[SlotState, SlotState], text: str) -> None:
    """Back below the states, the further the deeper; above them where the slot becomes Ready."""
    up, back = (1 if change[1] is READY else -1), change[0] - change[1]
    edge = up * HALF_HEIGHT
    if up > 0:
        start, end, depth = change[0] - 0.12, change[1] + (0.15 if back else 0.05), edge + (1.1 if back else 1.9)
    else:
        start, end, depth = float(change[0]), change[1] + 0.13 * (2 - back), edge - 0.2 - 0.75 * back
    path = f"M {start},{edge} C {start},{depth} {end},{depth} {end},{edge + 0.1 * up}"
    figure.add_shape(type="path", path=path, line={"color": GREY, "width": 1.5}, layer="below")
    _head(figure, (end, edge), (end, edge + 0.2 * up))
    peak = edge + 0.75 * (depth - edge)
    at = {"yanchor": "bottom" if up > 0 else "top", "showarrow": False, "font_size": 12}
    figure.add_annotation(x=0.6 * start + 0.4 * end, y=peak + 0.02 * up, text=text, **at)


def _head(figure: go.Figure, tip: tuple[float, float], tail: tuple[float, float]) -> None:
    """A line with an arrow's head."""
    axes = {"xref": "x", "yref": "y", "axref": "x", "ayref": "y", "text": ""}
    looks = {"showarrow": True, "arrowhead": 2, "arrowsize": 1.2, "arrowwidth": 1.5, "arrowcolor": GREY}
    figure.add_annotation(x=tip[0], y=tip[1], ax=tail[0], ay=tail[1], **axes, **looks)
