"""Products of records with one strip of bytes (`q8`), by this processor's variant."""

from __future__ import annotations

from functools import cache

from estream_lab.kernels.apart import address_of
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.int8.dot_q8 import DOTS_Q8
from estream_lab.kernels.int8.features import variant
from estream_lab.kernels.int8.product import register_block
from estream_lab.kernels.int8.q8 import BLOCK_BYTES
from estream_lab.kernels.int8.records import RECORD_BYTES
from estream_lab.kernels.int8.strip import quantise
from estream_lab.kernels.int8.weights import Octets
from estream_lab.kernels.packed.lane import Lane
from estream_lab.kernels.packed.product import product_kernel
from estream_lab.kernels.packed.scratch import ROW_BLOCK

BLOCKS_AT_ONCE = 8
"""Blocks of a strip that all rows are multiplied by before the next: they stay in the first-level cache (9 KB)."""

_DOT = DOTS_Q8[variant().name]
_kernel = product_kernel(register_block(_DOT, Octets), range(1, _DOT.rows + 1))


@cache
def lane() -> Lane:
    """The records of `strip.lane`, and their products with Q8_0 weights, which there is no need to take apart."""
    sizes = (BLOCK_BYTES, ROW_BLOCK, BLOCKS_AT_ONCE, BLOCKS_AT_ONCE)
    return Lane(RECORD_BYTES, _DOT.rows, *sizes, address_of(quantise), address_of(_octets), 0, 0)


@compiled
def _octets(rows: int, x: int, w: int, blocks: int, c: int) -> None:
    _kernel(rows, x, w, blocks, c)
