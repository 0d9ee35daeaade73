"""All temporaries of the operator, allocated once."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from estream_lab.kernels.arrays import aligned
from estream_lab.kernels.bank import BankScratch
from estream_lab.kernels.host.vector_ir import COLUMNS

ROW_BLOCK = 192
"""Rows of a tile of sums: more of a slot's rows take its weights apart again."""

TILE_BYTES = 4 * ROW_BLOCK * COLUMNS


class RecordScratch(BankScratch):
    """All temporaries of a lane's `expert_bank`, allocated once.

    Attributes:
        RECORD_BYTES: of a row's 32 activations.
        PANEL_BYTES: of the weights that a product takes apart at a time.
        TILES: of sums that a thread has, at least two: for gate and up, and for as many neighbouring strips of down.
        x: uint8, records of every route's token.
        act: uint8, records of every route's SwiGLU.
        panels: uint8 (threads, PANEL_BYTES).
        tiles: float32 (threads, TILES, ROW_BLOCK * 32).
    """

    RECORD_BYTES: ClassVar[int]
    PANEL_BYTES: ClassVar[int]
    TILES: ClassVar[int]

    def __init__(self, max_rows: int, hidden: int, ffn: int, threads: int) -> None:
        super().__init__(max_rows, hidden, ffn, threads)
        self.x = aligned(self.record_bytes(max_rows, hidden))
        self.act = aligned(self.record_bytes(max_rows, ffn))
        self.panels = aligned(threads * self.PANEL_BYTES).reshape(threads, -1)
        self.tiles = aligned(threads * self.TILES * TILE_BYTES).view(np.float32).reshape(threads, self.TILES, -1)

    @classmethod
    def bytes_for(cls, max_rows: int, hidden: int, ffn: int, threads: int) -> int:
        """`nbytes` of scratch memory of this size."""
        rows = cls.record_bytes(max_rows, hidden) + cls.record_bytes(max_rows, ffn)
        return rows + threads * (cls.PANEL_BYTES + cls.TILES * TILE_BYTES)

    @classmethod
    def record_bytes(cls, rows: int, width: int) -> int:
        """Of the records of rows of `width` numbers, a multiple of 32."""
        return rows * (width // COLUMNS) * cls.RECORD_BYTES
