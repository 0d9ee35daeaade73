"""Where an element lies among tiles (layout.py): what every stage that reads or writes them goes by."""

from __future__ import annotations

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.layout import STRIP, TILE_BYTES

TILE = TILE_BYTES // 2
"""Halfwords of a tile."""

_ROW_PAIR = 2 * STRIP  # halfwords of two interleaved rows


@compiled
def tile_row(row: int, column_tile: int, columns: int) -> int:
    """Halfword of element (row, 32 * column_tile) of a tiled matrix of so many columns; the next one is two on."""
    return (row // STRIP * (columns // STRIP) + column_tile) * TILE + row % STRIP // 2 * _ROW_PAIR + row % 2
