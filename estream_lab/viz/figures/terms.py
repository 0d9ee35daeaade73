"""A layer by the recurrence as a table: each maximum with its terms, in the colour of the one that attains it."""

from collections.abc import Sequence

import plotly.graph_objects as go

from estream_lab.simulate.critical_path import CONSTRAINTS, START, ScheduledLayer, Term, binding
from estream_lab.viz.figures.critical_path import BINDING_COLOURS
from estream_lab.viz.figures.tables import table
from estream_lab.viz.figures.theme import key, wrap

SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def terms_table(layer: ScheduledLayer) -> go.Figure:
    """A row a group: L, X, a = max(…), d = a + L, s = max(…), f = s + X."""
    groups, times = range(len(layer.reads)), layer.times
    reads, runs = ([terms(k) for k in groups] for terms in (layer.read_terms, layer.run_terms))
    starts = {"a, read starts": reads, "s, execution starts": runs}
    columns = {
        "k": [str(name) for name in layer.names],
        "L": [str(time) for time in layer.reads],
        "X": [str(time) for time in layer.runs],
        "a, read starts": [maximum(terms) for terms in reads],
        "d = a + L": [f"{times.a[k]} + {layer.reads[k]} = {times.d[k]}" for k in groups],
        "s, execution starts": [maximum(terms) for terms in runs],
        "f = s + X": [f"{times.s[k]} + {layer.runs[k]} = {times.f[k]}" for k in groups],
    }
    colours = {name: [BINDING_COLOURS[binding(terms).constraint] for terms in rows] for name, rows in starts.items()}
    settings = [layer.schedule, f"T^ne = {layer.non_expert}", f"B={layer.banks} Q={layer.queue_depth}"]
    subtitle = wrap(["worked by the recurrence from service times made up", *settings, "any unit of time"])
    subtitle += f"<br>what binds: {key({name: BINDING_COLOURS[name] for name in CONSTRAINTS if name != START})}"
    widths = (30, 30, 30, 190, 110, 220, 110)
    return table(columns, widths, f"The recurrence by hand: T_pipe = {layer.pipe_time}", subtitle, colours)


def maximum(terms: Sequence[Term]) -> str:
    """`max(d₁ 4, f₁ 7) = 7`; a lone term is its value alone."""
    told = [term.symbol.translate(SUBSCRIPTS) + f" {term.time}" for term in terms if term.constraint != START]
    if not told:
        return "0"
    if len(told) == 1:
        return f"{told[0].partition(' ')[0]} = {binding(terms).time}"
    return f"max({', '.join(told)}) = {binding(terms).time}"
