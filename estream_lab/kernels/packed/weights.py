"""Weights of a strip are brought from memory before they are read."""

from __future__ import annotations

from llvmlite import ir

from estream_lab.kernels.apart import emitted
from estream_lab.kernels.layout import BLOCK_BYTES
from estream_lab.kernels.vectors import prefetch

AHEAD = 8
"""Blocks between the one that is read and the one that is brought from memory."""


def bring_ahead(builder: ir.IRBuilder, block: ir.Value, block_bytes: int) -> None:
    """Have the block brought that is read `AHEAD` blocks after this one: processors look ahead themselves, but not into
    another page of memory."""
    prefetch(builder, block, AHEAD * block_bytes, block_bytes)


def _bring(builder: ir.IRBuilder, w: ir.Value) -> None:
    prefetch(builder, w, 0, AHEAD * BLOCK_BYTES)


bring = emitted(_bring)
"""``bring(w)``: have the first blocks of a strip at an address brought, as a product does with those that follow."""
