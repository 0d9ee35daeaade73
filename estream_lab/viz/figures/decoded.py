"""What 4-bit weights are decoded to: d · (q − 8), rounded to fp16."""

from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from estream_lab.kernels.exact import decode_q4, value
from estream_lab.kernels.exact.half import operands
from estream_lab.kernels.layout import STRIP
from estream_lab.trace import Provenance
from estream_lab.viz.figures.tables import table
from estream_lab.viz.figures.theme import COLOURS, INK, SEQUENCE, dress, provenance_line

LEVELS = 16
SIGNIFICAND_BITS = 11
OUTCOMES = {
    "exact": SEQUENCE[0],
    "rounded": SEQUENCE[1],
    "tie, to even": COLOURS["wait"],
}
"""What becomes of a product, and its colour."""


@dataclass(frozen=True, slots=True)
class Rounding:
    """What a product's integer, |m · (q − 8)| of up to 14 bits, is rounded to: `kept` · 2^`cut`."""

    product: int
    cut: int
    kept: int

    @property
    def outcome(self) -> str:
        """One of `OUTCOMES`."""
        rest = 2 * (self.product & ((1 << self.cut) - 1))
        return "exact" if not rest else "tie, to even" if rest == 1 << self.cut else "rounded"


def rounding(scale: float, q: int) -> Rounding:
    """The rounding of one weight, as `decode_q4` does it. q in 0 … 15.

    Raises ValueError for a scale of 8192 or more in magnitude, infinite or NaN.
    """
    return _roundings(_halves(scale))[0][q]


def decode_table(scale: float, provenance: Provenance) -> go.Figure:
    """The sixteen weights of one scale: the integer that is rounded, in binary, and what comes of it.

    Args:
        scale: d, rounded to fp16; subnormal ones too.

    Raises:
        ValueError: a scale of 8192 or more in magnitude, infinite or NaN.
    """
    d = _halves(scale)
    found, codes = _roundings(d)[0], _decoded(d)[0]
    numbers = value(codes)
    columns = {
        "q": [str(q) for q in range(LEVELS)],
        "q − 8": [f"{q - 8:+d}" if q != 8 else "0" for q in range(LEVELS)],
        "m · |q − 8|": [f"{each.product:,}" for each in found],
        "kept | cut off": [_cut(each) for each in found],
        "rounds to": [f"{each.kept << each.cut:,}" for each in found],
        "outcome": [each.outcome for each in found],
        "weight": [f"{number:.9g}" for number in numbers.tolist()],
        "code": [f"0x{code:04X}" for code in codes.tolist()],
    }
    colours = {"outcome": [OUTCOMES[each.outcome] for each in found]}
    title = f"A scale of {float(d[0]):.9g}: m = {_significands(d)[0]:,}, and the integers that it is rounded as"
    return table(columns, (45, 65, 110, 175, 95, 115, 135, 85), title, provenance_line(provenance), colours)


def decode_outcomes(provenance: Provenance) -> go.Figure:
    """For each |q − 8|, how many of the 1,024 significands of a scale give an exact weight, a rounded one, a tie."""
    d = (np.arange(1024, 2048) * 2.0**-15).astype(np.float16)  # m · 2^-15
    rows = _roundings(d)
    figure = go.Figure()
    for outcome, colour in OUTCOMES.items():
        counts = [sum(row[8 + w if w < 8 else 0].outcome == outcome for row in rows) for w in range(1, 9)]
        figure.add_bar(
            x=list(range(1, 9)),
            y=counts,
            name=outcome,
            marker_color=colour,
            text=[f"{count:,}" if count > 60 else "" for count in counts],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"color": INK, "size": 11},
            hovertemplate=f"|q − 8| = %{{x}}: %{{y}} of 1,024<br>{outcome}<extra></extra>",
        )
    figure.update_xaxes(title_text="|q − 8|", dtick=1, showgrid=False)
    figure.update_yaxes(title={"text": "significands of the scale", "standoff": 12}, range=[0, 1024], dtick=256)
    dress(figure, "Powers of two cost nothing, the others up to three bits", provenance_line(provenance), 260)
    return figure.update_layout(barmode="stack")


def _halves(scale: float) -> NDArray[np.float16]:
    """(1,) the scale; one beyond fp16 becomes infinite, which the decoder refuses."""
    with np.errstate(over="ignore"):
        return np.array([scale], np.float64).astype(np.float16)


def _decoded(d: NDArray[np.float16]) -> NDArray[np.uint16]:
    """(n, 16) codes of the weights of (n,) scales, by the decoder."""
    q = np.tile(np.arange(STRIP, dtype=np.uint8) % LEVELS, (len(d), 1))
    return decode_q4(q, d[:, None])[:, :LEVELS]


def _significands(d: NDArray[np.float16]) -> list[int]:
    return [abs(m) for m in operands()[0][d.view(np.uint16)].tolist()]


def _roundings(d: NDArray[np.float16]) -> list[list[Rounding]]:
    """For each scale its sixteen roundings, read off the decoder's codes."""
    kept = operands()[0][_decoded(d)].tolist()  # (n, 16), 11 bits with sign
    rows = []
    for m, row in zip(_significands(d), kept, strict=True):
        rows.append([_rounding(m * abs(q - 8), abs(row[q])) for q in range(LEVELS)])
    return rows


def _rounding(product: int, kept: int) -> Rounding:
    """A product with its decoded significand, put to the product's places: a carry ends in a smaller one."""
    cut = max(0, product.bit_length() - SIGNIFICAND_BITS)
    carried = kept << 1 if kept and cut and kept == 1024 and product >> cut == 2047 else kept
    return Rounding(product, cut, carried)


def _cut(each: Rounding) -> str:
    digits = f"{each.product:b}"
    return f"{digits[: len(digits) - each.cut]} | {digits[len(digits) - each.cut :]}" if each.cut else digits
