"""All temporaries of the int8 operators, allocated once."""

from __future__ import annotations

from estream_lab.kernels.host.projection import LinearSizes
from estream_lab.kernels.int8.records import RECORD_BYTES
from estream_lab.kernels.int8.weights import PANEL_BLOCK_BYTES
from estream_lab.kernels.packed.scratch import TILE_BYTES, RecordScratch

PANEL_BLOCKS = 8
"""Blocks of inputs of a panel: 9 KB, which stay in the first-level cache beside a register block's records."""


class Scratch(RecordScratch):
    """All temporaries of `expert_bank`, allocated once."""

    RECORD_BYTES = RECORD_BYTES
    PANEL_BYTES = PANEL_BLOCKS * PANEL_BLOCK_BYTES
    TILES = 2


def linear_sizes(k: int) -> LinearSizes:
    """Temporaries of a projection with K inputs: records of each row, a panel and a tile of sums of each thread."""
    return LinearSizes(row=Scratch.record_bytes(1, k), panel=Scratch.PANEL_BYTES, tile=TILE_BYTES)
