"""All temporaries of the int8 operators, allocated once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.host.vector_ir import COLUMNS
from estream_lab.kernels.int8.records import RECORD_BYTES
from estream_lab.kernels.int8.weights import PANEL_BLOCK_BYTES

ROW_BLOCK = 192
"""Rows of a tile of sums: more of a slot's rows take its weights apart again."""

PANEL_BLOCKS = 8
"""Blocks of inputs of a panel: 9 KB, which stay in the first-level cache beside a register block's records."""

_LINE = 64


class Scratch:
    """All temporaries of `expert_bank`.

    Args:
        max_rows: C, the most routes of one call.
        hidden: H of the largest expert.
        ffn: F of the largest expert.
        threads: the most threads that will run.
    """

    def __init__(self, max_rows: int, hidden: int, ffn: int, threads: int) -> None:
        if min(max_rows, hidden, ffn, threads) < 1:
            raise ValueError("scratch memory needs at least one row, column and thread")
        self.max_rows, self.hidden, self.ffn, self.threads = max_rows, hidden, ffn, threads
        self.x = aligned(_records(max_rows, hidden))  # of every route's token
        self.act = aligned(_records(max_rows, ffn))  # of every route's SwiGLU
        # Of each thread: a panel, and tiles of the sums of gate (or down) and up.
        self.panels = aligned(threads * PANEL_BLOCKS * PANEL_BLOCK_BYTES).reshape(threads, -1)
        self.tiles = aligned(threads * 2 * ROW_BLOCK * COLUMNS * 4).view(np.float32).reshape(threads, 2, -1)

    @staticmethod
    def bytes_for(max_rows: int, hidden: int, ffn: int, threads: int) -> int:
        """`nbytes` of scratch memory of this size."""
        thread = PANEL_BLOCKS * PANEL_BLOCK_BYTES + 2 * ROW_BLOCK * COLUMNS * 4
        rows = _records(max_rows, hidden) + _records(max_rows, ffn)
        return rows + threads * thread

    @property
    def nbytes(self) -> int:
        """Bytes of all temporaries."""
        return sum(a.nbytes for a in (self.x, self.act, self.panels, self.tiles))


class LinearScratch:
    """All temporaries of `dense.linear_q4` and `dense.linear_q8`.

    Args:
        max_rows: the most rows of one call.
        inputs: K of the widest projection.
        threads: the most threads that will run.
    """

    def __init__(self, max_rows: int, inputs: int, threads: int) -> None:
        if min(max_rows, threads) < 1 or inputs < COLUMNS:
            raise ValueError("scratch memory needs at least one row, one block of 32 inputs and one thread")
        self.max_rows, self.inputs, self.threads = max_rows, inputs, threads
        self.x = aligned(_records(max_rows, inputs))
        # Of each thread: a panel and a tile of sums.
        self.panels = aligned(threads * PANEL_BLOCKS * PANEL_BLOCK_BYTES).reshape(threads, -1)
        self.tiles = aligned(threads * ROW_BLOCK * COLUMNS * 4).view(np.float32).reshape(threads, -1)

    @staticmethod
    def bytes_for(max_rows: int, inputs: int, threads: int) -> int:
        """`nbytes` of scratch memory of this size."""
        thread = PANEL_BLOCKS * PANEL_BLOCK_BYTES + ROW_BLOCK * COLUMNS * 4
        return _records(max_rows, inputs) + threads * thread

    @property
    def nbytes(self) -> int:
        """Bytes of all temporaries."""
        return sum(a.nbytes for a in (self.x, self.panels, self.tiles))


def _records(rows: int, width: int) -> int:
    return rows * (width // COLUMNS) * RECORD_BYTES


def aligned(size: int) -> NDArray[np.uint8]:
    """`size` bytes at the start of a cache line: a vector that crosses lines is loaded in two steps."""
    memory = np.empty(size + _LINE, np.uint8)
    first = -memory.ctypes.data % _LINE
    return memory[first : first + size]
