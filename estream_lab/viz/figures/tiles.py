"""Where an element lies: in a tile of the matrix unit, and in a packed projection."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from estream_lab.kernels.layout import BLOCK_BYTES, STRIP, TILE_BYTES, projection_bytes, tile_element
from estream_lab.trace import Provenance
from estream_lab.viz.figures.theme import (
    CLEAR,
    COLOURS,
    GREY,
    INK,
    PANEL_TITLE,
    SEQUENCE,
    dress,
    faded,
    key,
    provenance_line,
)

NIBBLE_BYTES = 512
"""Of a block, before its scales."""

MEMORY_ROW = 32
"""Bytes in a row of the memory panel."""

SIDE = 330  # px, of a panel's plot
MARK = COLOURS["wait"]
TINTS = ((0.0, faded(SEQUENCE[0], 0.12)), (1.0, faded(SEQUENCE[0], 0.85)))
"""From the first byte to the last."""

SCALE_TINT = SEQUENCE[1]


@dataclass(frozen=True, slots=True)
class WeightPlace:
    """Where a weight lies in q4-32x32: `byte` from the projection's start, its high or low nibble; its scale's byte."""

    block: int
    byte: int
    high: bool
    scale: int


def weight_place(n: int, k: int, outputs: int, inputs: int) -> WeightPlace:
    """The place of weight (n, k), input k of output n, in a projection of so many outputs and inputs.

    Raises:
        ValueError: an element outside of the projection, or sizes that aren't multiples of 32.
    """
    projection_bytes("q4-32x32", outputs, inputs)
    if not (0 <= n < outputs and 0 <= k < inputs):
        raise ValueError(f"weight ({n}, {k}) of a projection of {outputs} x {inputs}")
    block = n // STRIP * (inputs // STRIP) + k // STRIP
    start, i, j = block * BLOCK_BYTES, k % STRIP, n % STRIP
    return WeightPlace(block, start + 128 * (i // 8) + 4 * j + i % 4, i % 8 >= 4, start + NIBBLE_BYTES + 2 * j)


def tile_layout(row: int, column: int, provenance: Provenance) -> go.Figure:
    """A tile of 32 x 32 fp16 numbers: the byte of each element, and the way that memory takes through it.

    The element (row, column) is ringed, 0 <= row, column < 32.
    """
    bytes_of = np.array([[tile_element(i, j) for j in range(STRIP)] for i in range(STRIP)], np.int16)
    order = np.argsort(bytes_of, axis=None)  # elements in the order of memory
    at = tile_element(row, column)
    memory = np.arange(TILE_BYTES // 2, dtype=np.int16).reshape(16, 64) * 2  # 128 bytes a line: a vector register
    figure = _panels("the tile: row i, column j", "its memory: 128 bytes a line", (0.48, 0.52))
    figure.add_trace(_heat(bytes_of, "element (%{y}, %{x})<br>byte %{z}"), row=1, col=1)
    figure.add_scatter(
        x=(order % STRIP).astype(np.int8),
        y=(order // STRIP).astype(np.int8),
        mode="lines",
        line={"color": GREY, "width": 1},
        hoverinfo="skip",
        row=1,
        col=1,
    )
    figure.add_trace(_ring([column], [row], 13), row=1, col=1)
    figure.add_trace(_heat(memory, "byte %{z}<br>line %{y}"), row=1, col=2)
    figure.add_trace(_ring([at % 128 // 2], [at // 128], 13), row=1, col=2)
    figure.update_xaxes(title_text="column j", **_ticks(STRIP, 8), row=1, col=1)
    figure.update_yaxes(title_text="row i", **_ticks(STRIP, 8, down=True), row=1, col=1)
    figure.update_xaxes(title_text="fp16 number of the line", **_ticks(64, 8), row=1, col=2)
    figure.update_yaxes(title_text="line", **_ticks(16, 4, down=True), row=1, col=2)
    title = f"Element ({row}, {column}) of a tile is at byte {at}: {row // 2} · 128 + {column} · 4 + {row % 2} · 2"
    return _dressed(figure, title, provenance, {f"element ({row}, {column})": MARK, "the order of memory": GREY})


def packed_layout(n: int, k: int, outputs: int, inputs: int, provenance: Provenance) -> go.Figure:
    """A packed block of 32 x 32 weights: the byte of each weight, and its 576 bytes with the scales behind the weights.

    Weight (n, k) of a projection of `outputs` x `inputs` is ringed, in both panels its scale too.

    Raises:
        ValueError: as `weight_place`.
    """
    place = weight_place(n, k, outputs, inputs)
    start, i, j = place.block * BLOCK_BYTES, k % STRIP, n % STRIP
    grid = np.array([[weight_place(c, r, STRIP, STRIP).byte for c in range(STRIP)] for r in range(STRIP)], np.int16)
    memory = np.arange(BLOCK_BYTES, dtype=np.int16).reshape(-1, MEMORY_ROW)
    at, scale = place.byte - start, place.scale - start
    figure = _panels("the block: input k, output n, both modulo 32", "its memory: 32 bytes a line", (0.5, 0.5))
    figure.add_trace(_heat(grid, "input %{y}, output %{x}<br>byte %{z} of the block"), row=1, col=1)
    figure.add_trace(_ring([j], [i], 13), row=1, col=1)
    figure.add_trace(_heat(memory, "byte %{z} of the block", scales_from=NIBBLE_BYTES), row=1, col=2)
    figure.add_trace(_ring([at % MEMORY_ROW], [at // MEMORY_ROW], 13), row=1, col=2)
    places = [scale % MEMORY_ROW, scale % MEMORY_ROW + 1]
    figure.add_trace(_ring(places, [scale // MEMORY_ROW] * 2, 13, "square", INK), row=1, col=2)
    figure.update_xaxes(title_text="output n mod 32", **_ticks(STRIP, 8), row=1, col=1)
    figure.update_yaxes(title_text="input k mod 32", **_ticks(STRIP, 8, down=True), row=1, col=1)
    figure.update_xaxes(title_text="byte of the line", **_ticks(MEMORY_ROW, 8), row=1, col=2)
    figure.update_yaxes(title_text="line", **_ticks(18, 4, down=True), row=1, col=2)
    nibble = "high" if place.high else "low"
    title = f"Weight ({n}, {k}) is the {nibble} nibble of byte {place.byte:,}, its scale at byte {place.scale:,}"
    legend = {f"weight ({n}, {k}); its scale in squares": MARK, "nibbles": SEQUENCE[0], "scales": SCALE_TINT}
    block = f"{outputs} × {inputs} weights: block {place.block} starts at byte {start:,}"
    return _dressed(figure, title, provenance, legend, block)


def _panels(left: str, right: str, widths: tuple[float, float]) -> go.Figure:
    figure = make_subplots(
        rows=1, cols=2, column_widths=list(widths), horizontal_spacing=0.1, subplot_titles=[left, right]
    )
    figure.update_annotations(font_size=13)
    return figure


def _heat(z: NDArray[np.int16], hover: str, scales_from: int | None = None) -> go.Heatmap:
    """Numbers of bytes by their tint; those from `scales_from` on in the scales' colour."""
    tints: list[tuple[float, str]] = list(TINTS)
    last = int(z.max())
    if scales_from is not None:
        cut = scales_from / last
        tints = [(0.0, TINTS[0][1]), (cut, TINTS[1][1]), (cut, SCALE_TINT), (1.0, SCALE_TINT)]
    return go.Heatmap(
        z=z,
        zmin=0,
        zmax=last,
        colorscale=tints,
        showscale=False,
        hovertemplate=f"{hover}<extra></extra>",
        xgap=1,
        ygap=1,
    )


def _ring(x: list[int], y: list[int], size: int, symbol: str = "circle", colour: str = MARK) -> go.Scatter:
    marker = {"size": size, "symbol": symbol, "color": CLEAR, "line": {"color": colour, "width": 3}}
    return go.Scatter(x=x, y=y, mode="markers", marker=marker, hoverinfo="skip", cliponaxis=False)


def _ticks(count: int, step: int, down: bool = False) -> dict[str, Any]:
    ends = [-0.5, count - 0.5]
    return {"range": ends[::-1] if down else ends, "dtick": step, "tick0": 0, "showgrid": False}


def _dressed(
    figure: go.Figure, title: str, provenance: Provenance, legend: dict[str, str], note: str = ""
) -> go.Figure:
    lines = [provenance_line(provenance), *([note] if note else []), key(legend)]
    return dress(figure, title, "<br>".join(lines), SIDE, PANEL_TITLE).update_layout(showlegend=False)
