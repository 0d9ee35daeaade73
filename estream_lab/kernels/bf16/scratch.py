"""All memory that the bf16 operator needs beside its inputs and outputs, allocated once."""

from __future__ import annotations

from estream_lab.kernels.bf16.dot import DOTS
from estream_lab.kernels.bf16.variants import variant
from estream_lab.kernels.bf16.weights import panel_block_bytes
from estream_lab.kernels.packed.scratch import RecordScratch

PANEL_BLOCKS = 4
"""Blocks of inputs of a panel: 9 KB in bf16, which stay in the first-level cache beside a register block's records."""

_DOT = DOTS[variant().name]


class Scratch(RecordScratch):
    """All temporaries of `expert_bank`; how many bytes they take depends on this processor's variant."""

    RECORD_BYTES = _DOT.record_bytes
    PANEL_BYTES = PANEL_BLOCKS * panel_block_bytes(_DOT)
    TILES = 4
    """A share of down passes over the SwiGLU of all routes and over a part of every row of y: the more strips it takes
    together, the fewer passes."""
