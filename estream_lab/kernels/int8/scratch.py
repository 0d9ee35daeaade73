"""All temporaries of the int8 operators, allocated once."""

from __future__ import annotations

import numpy as np

from estream_lab.kernels.arrays import aligned
from estream_lab.kernels.bank import BankScratch
from estream_lab.kernels.host.projection import LinearSizes
from estream_lab.kernels.host.vector_ir import COLUMNS
from estream_lab.kernels.int8.records import RECORD_BYTES
from estream_lab.kernels.int8.weights import PANEL_BLOCK_BYTES

ROW_BLOCK = 192
"""Rows of a tile of sums: more of a slot's rows take its weights apart again."""

PANEL_BLOCKS = 8
"""Blocks of inputs of a panel: 9 KB, which stay in the first-level cache beside a register block's records."""

PANEL_BYTES = PANEL_BLOCKS * PANEL_BLOCK_BYTES
TILE_BYTES = 4 * ROW_BLOCK * COLUMNS


class Scratch(BankScratch):
    """All temporaries of `expert_bank`, allocated once."""

    def __init__(self, max_rows: int, hidden: int, ffn: int, threads: int) -> None:
        super().__init__(max_rows, hidden, ffn, threads)
        self.x = aligned(_records(max_rows, hidden))  # of every route's token
        self.act = aligned(_records(max_rows, ffn))  # of every route's SwiGLU
        # Of each thread: a panel, and tiles of the sums of gate (or down) and up.
        self.panels = aligned(threads * PANEL_BYTES).reshape(threads, -1)
        self.tiles = aligned(threads * 2 * TILE_BYTES).view(np.float32).reshape(threads, 2, -1)

    @staticmethod
    def bytes_for(max_rows: int, hidden: int, ffn: int, threads: int) -> int:
        """`nbytes` of scratch memory of this size."""
        rows = _records(max_rows, hidden) + _records(max_rows, ffn)
        return rows + threads * (PANEL_BYTES + 2 * TILE_BYTES)


def linear_sizes(k: int) -> LinearSizes:
    """Temporaries of a projection with K inputs: records of each row, a panel and a tile of sums of each thread."""
    return LinearSizes(row=_records(1, k), panel=PANEL_BYTES, tile=TILE_BYTES)


def _records(rows: int, width: int) -> int:
    return rows * (width // COLUMNS) * RECORD_BYTES
