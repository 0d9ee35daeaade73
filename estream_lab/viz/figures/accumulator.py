"""What one accumulator of the matrix unit does with a group of products, bit by bit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from estream_lab.kernels.exact import PROFILES, Profile, matmul, profile, value
from estream_lab.kernels.exact.accumulator_trace import AccumulatorStep, Line, Word, accumulator_steps
from estream_lab.kernels.exact.arrays import U16
from estream_lab.kernels.layout import STRIP
from estream_lab.trace import Provenance
from estream_lab.viz.figures.step_diagram import stepped
from estream_lab.viz.figures.tables import table
from estream_lab.viz.figures.theme import COLOURS, SEQUENCE, dressing, faded, key, provenance_line

CELLS = {
    "a 0": faded(SEQUENCE[0], 0.16),
    "a 1": SEQUENCE[0],
    "0 shifted out": faded(SEQUENCE[1], 0.3),
    "1 shifted out": SEQUENCE[1],
    "last bit, set because a 1 was shifted out": COLOURS["wait"],
}
"""What a cell shows, and its colour."""

NAMES = list(CELLS)
ROW, AXIS_ROOM, BELOW = 26, 44, 12  # px: the axis is on top, where the numbers are however few there are
MOST_ROWS = 12
"""Eight products, their sum, the accumulator, the sum of both, and what the accumulator holds then."""

MOST_BITS = 76
"""Columns: bits that weigh less than the last one are told, not drawn."""


def accumulator_group(step: AccumulatorStep, profile_name: str, provenance: Provenance) -> go.Figure:
    """`accumulator_drawing` as a figure."""
    return go.Figure(accumulator_drawing(step, profile(profile_name), provenance))


def accumulator_drawing(step: AccumulatorStep, chosen: Profile, provenance: Provenance) -> dict[str, Any]:
    """The numbers of one group in two's complement: a row each, a column for each power of two.

    A number starts with its sign's bit. What alignment (or, in fp32, rounding) cuts off is orange.
    """
    top, bottom = bounds(step)
    z = np.full((MOST_ROWS, top - bottom + 1), np.nan)
    for row, line in enumerate(step.lines):
        for place, cell in cells(line, chosen.block_floating).items():
            if place >= bottom:
                z[row, top - place] = NAMES.index(cell) + 0.5
    heat = {
        "type": "heatmap",
        "x": list(range(top, bottom - 1, -1)),
        "z": z,
        "zmin": 0,
        "zmax": len(NAMES),
        "colorscale": stepped(list(CELLS.values())),
        "showscale": False,
        "xgap": 1,
        "ygap": 4,
        "hoverongaps": False,
        "hovertemplate": "2<sup>%{x}</sup><extra></extra>",
    }
    lines = [provenance_line(provenance), _form(chosen), key(CELLS)]
    layout = dressing(f"One group of products under {chosen.name}", "<br>".join(lines), ROW * MOST_ROWS, AXIS_ROOM)
    layout["height"] -= layout["margin"]["b"] - BELOW
    layout["margin"] |= {"l": 235, "r": 24, "b": BELOW}
    plain = {"showgrid": False, "automargin": False, "ticks": ""}
    marks = [place for place in range(top, bottom - 1, -1) if place % 8 == 0]
    layout |= {
        "showlegend": False,
        "xaxis": {
            **plain, "side": "top", "range": [top + 0.5, bottom - 0.5], "tickvals": marks,
            "ticktext": [f"2<sup>{place}</sup>" for place in marks], "title": {"text": "what a bit weighs"},
        },
        "yaxis": {
            **plain, "range": [MOST_ROWS - 0.5, -0.5], "tickvals": list(range(len(step.lines))),
            "ticktext": [f"{line.name} = {_number(line.before)}\u2002" for line in step.lines],
        },
    }  # fmt: skip
    return {"data": [heat], "layout": layout}


def cells(line: Line, sticky: bool) -> dict[int, str]:
    """What stands at each power of two of a number before the cut, from its sign down to its last bit; none for zero.

    With `sticky`, the last bit kept shows as set where a 1 was cut off, whatever it was before. Without (fp32 rounds to
    nearest), the bits that are kept are shown as they were before rounding.
    """
    word = line.before
    if not word.bits:
        return {}
    found = {}
    for i in range(word.bits.bit_length() + 1):
        place, bit = word.place + i, word.bits >> i & 1
        found[place] = f"{bit} shifted out" if place < line.after.place else f"a {bit}"
    if sticky and line.lost:
        found[line.after.place] = NAMES[-1]
    return found


def bounds(step: AccumulatorStep) -> tuple[int, int]:
    """The powers of two of the first and last column: all bits of all numbers, `MOST_BITS` at most."""
    words = [line.before for line in step.lines if line.before.bits]
    if not words:
        return 0, -1
    top = max(word.place + word.bits.bit_length() for word in words)
    bottom = min(_lowest(word) for word in words)
    return top, max(bottom, top - MOST_BITS + 1)


def accumulator_table(a: U16, b: U16, names: Sequence[str], provenance: Provenance) -> go.Figure:
    """A row a profile: groups, how many lost bits where, and the result beside the exact sum.

    Args:
        a: (K,) uint16 codes, a row of activations. b: (K,) uint16, a weight column. names: of profiles.
    """
    runs = {name: accumulator_steps(a, b, name) for name in names}
    exact = runs[names[0]][-1].exact.value
    stored = {name: float(value(_stored(a, b, name))[0]) for name in names}
    columns = {
        "profile": list(names),
        "group": [str(PROFILES[name].group) for name in names],
        "products cut": [_share(steps) for steps in runs.values()],
        "sums cut": [_sums(steps) for steps in runs.values()],
        "accumulator": [f"{steps[-1].held.value:.9g}" for steps in runs.values()],
        "error": [f"{steps[-1].held.value - exact:+.2e}" for steps in runs.values()],
        "stored, fp16": [f"{stored[name]:.9g}" for name in names],
    }
    title = f"One output, {len(a)} products: exactly {exact:.12g}"
    subtitle = f"{provenance_line(provenance)}<br>cut: bits were shifted out or rounded off that aren't all zero"
    return table(columns, (140, 65, 125, 105, 145, 115, 125), title, subtitle)


def _stored(a: U16, b: U16, name: str) -> U16:
    """The code that the matrix unit stores."""
    weights = np.zeros((STRIP, len(b)), np.uint16)
    weights[0] = b
    return matmul(a[None], weights, name)[0, :1]


def _share(steps: Sequence[AccumulatorStep]) -> str:
    products = [line for step in steps for line in step.products]
    return f"{sum(line.lost for line in products)} of {len(products)}"


def _sums(steps: Sequence[AccumulatorStep]) -> str:
    found = [any(line.lost for line in step.lines[step.size :]) for step in steps]
    return f"{sum(found)} of {len(found)}"


def _form(chosen: Profile) -> str:
    if not chosen.block_floating:
        return "fp32: one product at a time, each sum rounded to the nearest number of 24 bits, ties to even"
    return (
        f"{chosen.group} products take the largest exponent among them, then their sum and the accumulator the larger"
    )


def _number(word: Word) -> str:
    return f"{word.value:+.5g}" if word.bits else "0"


def _lowest(word: Word) -> int:
    """The power of two of the lowest bit that is set."""
    return word.place + (word.bits & -word.bits).bit_length() - 1
