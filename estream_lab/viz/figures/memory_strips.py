"""Memory as three strips: rows of X, slots of the arena, rows of Y; and what one record reads and writes there."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.viz.figures.theme import COLOURS, GREY

WRITE = COLOURS["wait"]
HALF = 0.2
"""Of a strip's height; strips lie at y = 0, 1, 2."""

Path = list[tuple[float, float]]
GAP = (np.nan, np.nan)


@dataclass(frozen=True)
class Memory:
    """Sizes in bytes: of T rows of X and of Y, and of P slots with gate, up and down from the start of each."""

    rows: int
    row_bytes: int
    slots: int
    stride: int
    parts: tuple[int, int, int]

    @property
    def arena_bytes(self) -> int:
        """P · stride."""
        return self.slots * self.stride


@dataclass(frozen=True)
class Access:
    """What one record reads and writes: rows of X and Y, and the addresses of gate, up and down, in bytes."""

    x: int
    gate: int
    up: int
    down: int
    y: int


def memory_strips(memory: Memory, access: Access | None, colour: str, axes: dict[str, str]) -> list[dict[str, Any]]:
    """Four traces: outlines, what is read, what is written, and the way between.

    Each strip is as wide as the panel, whatever its bytes. What is read has `colour`. Without an access the last three
    are empty.
    """
    reads, writes, way = ([], [], []) if access is None else _boxes(memory, access)
    line = {"type": "scatter", "mode": "lines", "hoverinfo": "skip", **axes}
    area = {**line, "mode": "none", "fill": "toself"}
    return [
        {**line, **_joined(_outlines(memory)), "line": {"color": "rgba(128,128,128,0.6)", "width": 1}},
        {**area, **_joined(reads), "fillcolor": colour},
        {**area, **_joined(writes), "fillcolor": WRITE},
        {**line, **_joined(way), "line": {"color": GREY, "width": 1.5, "dash": "dot"}},
    ]


def strip_labels(memory: Memory, access: Access | None) -> list[str]:
    """A label for each strip: row and slot of what is read and written, or the size of the whole."""
    if access is None:
        rows = f"{memory.rows} × {memory.row_bytes} B"
        return [f"X  {rows}", f"arena  {memory.slots} slots", f"Y  {rows}"]
    row, slot = access.x // memory.row_bytes, access.gate // memory.stride
    return [f"X[{row}] = p_X + {access.x:,}", f"arena, slot {slot}", f"Y[{row}] = p_Y + {access.y:,}"]


def _outlines(memory: Memory) -> list[Path]:
    ends = np.cumsum([0, *memory.parts])  # of gate, up and down within a slot
    inner = [(slot * memory.stride + int(end)) / memory.arena_bytes for slot in range(memory.slots) for end in ends]
    rows = [row / memory.rows for row in range(1, memory.rows)]
    return [_comb(strip, places) for strip, places in ((0, rows), (1, inner), (2, rows))]


def _comb(strip: int, places: list[float]) -> Path:
    """A box, divided at these places, in one stroke: the page takes its time for every separate line."""
    low, high = strip - HALF, strip + HALF
    teeth = [point for place in places for point in ((place, low), (place, high), (place, low))]
    return [(0, low), *teeth, (1, low), (1, high), (0, high), (0, low)]


def _boxes(memory: Memory, access: Access) -> tuple[list[Path], list[Path], list[Path]]:
    """Boxes read and written, and lines between them."""
    row, total = access.x // memory.row_bytes, memory.rows
    starts = (access.gate, access.up, access.down)
    read = [
        (at / memory.arena_bytes, (at + size) / memory.arena_bytes)
        for at, size in zip(starts, memory.parts, strict=True)
    ]
    middle, slot = (row + 0.5) / total, (read[0][0] + read[-1][1]) / 2
    reads = [_box(0, row / total, (row + 1) / total), *(_box(1, *ends) for ends in read)]
    writes = [_box(2, row / total, (row + 1) / total)]
    way: list[Path] = [[(middle, HALF), (slot, 1 - HALF)], [(slot, 1 + HALF), (middle, 2 - HALF)]]
    return reads, writes, way


def _box(strip: int, left: float, right: float) -> Path:
    low, high = strip - HALF, strip + HALF
    return [(left, low), (right, low), (right, high), (left, high), (left, low)]


def _joined(paths: list[Path]) -> dict[str, NDArray[np.float64]]:
    """Paths as one trace's x and y, with a gap after each."""
    points = np.array([point for path in paths for point in [*path, GAP]], np.float64).reshape(-1, 2)
    return {"x": points[:, 0], "y": points[:, 1]}
