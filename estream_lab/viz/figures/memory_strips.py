"""Memory as three strips: rows of X, slots of the arena, rows of Y; and what one record reads and writes there."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.viz.figures.theme import COLOURS, GREY

WRITE = COLOURS["wait"]
HALF, LABEL = 0.2, 0.18
"""Of a strip's height, and from its edge to the text; strips lie at y = 0, 1, 2."""

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
    """Six traces: outlines, slot numbers, what is read, what is written, the way between, and the addresses.

    Each strip is as wide as the panel, whatever its bytes. What is read has `colour`. Without an access the last four
    are empty.
    """
    reads, writes, way, told = ([], [], [], []) if access is None else _boxes(memory, access)
    text = {"type": "scatter", "mode": "text", "hoverinfo": "skip", "cliponaxis": False, **axes}
    line = {"type": "scatter", "mode": "lines", "hoverinfo": "skip", **axes}
    slots = range(memory.slots)
    return [
        {**line, **_joined(_outlines(memory)), "line": {"color": "rgba(128,128,128,0.6)", "width": 1}},
        {
            **text,
            "x": [(slot + 0.5) / memory.slots for slot in slots],
            "y": [1 - HALF - LABEL] * memory.slots,
            "text": [str(slot) for slot in slots],
            "textfont": {"size": 11},
        },
        {**line, **_joined(reads), "fill": "toself", "fillcolor": colour, "line": {"color": colour, "width": 1}},
        {**line, **_joined(writes), "fill": "toself", "fillcolor": WRITE, "line": {"color": WRITE, "width": 1}},
        {**line, **_joined(way), "line": {"color": GREY, "width": 1.5, "dash": "dot"}},
        {
            **text,
            "x": [x for x, _, _ in told],
            "y": [y for _, y, _ in told],
            "text": [words for _, _, words in told],
            "textposition": ["middle right" if x < 0.5 else "middle left" for x, _, _ in told],  # towards the middle
        },
    ]


def _outlines(memory: Memory) -> list[Path]:
    ends = np.cumsum([0, *memory.parts])  # of gate, up and down within a slot
    inner = [(slot * memory.stride + int(end)) / memory.arena_bytes for slot in range(memory.slots) for end in ends]
    rows = [row / memory.rows for row in range(1, memory.rows)]
    paths = [_box(strip, 0, 1) for strip in range(3)]
    for strip, places in ((0, rows), (1, inner), (2, rows)):
        paths += [[(place, strip - HALF), (place, strip + HALF)] for place in places]
    return paths


def _boxes(memory: Memory, access: Access) -> tuple[list[Path], list[Path], list[Path], list[tuple[float, float, str]]]:
    """Boxes read and written, lines between them, and texts as (x, y, words)."""
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
    told = [
        (middle, HALF + LABEL, f"X[{row}] at p_X + {access.x:,}"),
        (slot, 1 + HALF + LABEL, f"gate {access.gate:,} · up {access.up:,} · down {access.down:,}"),
        (middle, 2 + HALF + LABEL, f"Y[{row}] at p_Y + {access.y:,}"),
    ]
    return reads, writes, way, told


def _box(strip: int, left: float, right: float) -> Path:
    low, high = strip - HALF, strip + HALF
    return [(left, low), (right, low), (right, high), (left, high), (left, low)]


def _joined(paths: list[Path]) -> dict[str, NDArray[np.float64]]:
    """Paths as one trace's x and y, with a gap after each."""
    points = np.array([point for path in paths for point in [*path, GAP]], np.float64).reshape(-1, 2)
    return {"x": points[:, 0], "y": points[:, 1]}
