"""All memory that the bf16 operator needs beside its inputs and outputs, allocated once."""

from __future__ import annotations

import numpy as np

from estream_lab.kernels.arrays import aligned
from estream_lab.kernels.bank import BankScratch
from estream_lab.kernels.bf16.dot import DOTS
from estream_lab.kernels.bf16.variants import variant
from estream_lab.kernels.bf16.weights import panel_block_bytes
from estream_lab.kernels.host.vector_ir import COLUMNS

ROW_BLOCK = 192
"""Rows of a tile of sums: more of a slot's rows take its weights apart again."""

PANEL_BLOCKS = 4
"""Blocks of inputs of a panel: 9 KB in bf16, which stay in the first-level cache beside a register block's records."""


STRIPS = 4
"""Neighbouring strips that one share of the down projection takes together, each into a tile.

A share passes over the SwiGLU of all routes and over a part of every row of y: the more strips, the fewer passes.
"""


class Scratch(BankScratch):
    """All temporaries of `expert_bank`; how many bytes they take depends on this processor's variant."""

    def __init__(self, max_rows: int, hidden: int, ffn: int, threads: int) -> None:
        super().__init__(max_rows, hidden, ffn, threads)
        self.x = aligned(_records(max_rows, hidden))  # of every route's token
        self.act = aligned(_records(max_rows, ffn))  # of every route's SwiGLU
        # Of each thread: a panel, and tiles of the sums of gate and up, or of strips of down.
        self.panels = aligned(threads * _panel()).reshape(threads, -1)
        self.tiles = aligned(threads * _tiles()).view(np.float32).reshape(threads, STRIPS, -1)

    @staticmethod
    def bytes_for(max_rows: int, hidden: int, ffn: int, threads: int) -> int:
        """`nbytes` of scratch memory of this size."""
        return _records(max_rows, hidden) + _records(max_rows, ffn) + threads * (_panel() + _tiles())


def _records(rows: int, width: int) -> int:
    return rows * (width // COLUMNS) * DOTS[variant().name].record_bytes


def _panel() -> int:
    return PANEL_BLOCKS * panel_block_bytes(DOTS[variant().name])


def _tiles() -> int:
    return STRIPS * ROW_BLOCK * COLUMNS * 4
