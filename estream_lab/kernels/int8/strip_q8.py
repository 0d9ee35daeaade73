"""Products of records with one strip of bytes (`q8`), by this processor's variant."""

from __future__ import annotations

from functools import cache

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.vector_ir import COLUMNS
from estream_lab.kernels.int8.apart import address_of
from estream_lab.kernels.int8.dot_q8 import DOTS_Q8
from estream_lab.kernels.int8.features import variant
from estream_lab.kernels.int8.product import product_kernel
from estream_lab.kernels.int8.q8 import BLOCK_BYTES
from estream_lab.kernels.int8.records import RECORD_BYTES
from estream_lab.kernels.int8.weights import Octets

BLOCKS_AT_ONCE = 8
"""Blocks of a strip that all rows are multiplied by before the next: they stay in the first-level cache (9 KB)."""

_DOT = DOTS_Q8[variant().name]
_MOST = _DOT.rows
_octets = product_kernel(_DOT, Octets)


@cache
def products() -> tuple[int, int]:
    """What `strip.strip_product` calls for few and for many rows: the same, for there is nothing to take apart."""
    return address_of(_add_octets), address_of(_add_octets)


@compiled
def _add_octets(x: int, rows: int, w: int, blocks: int, panel: int, c: int) -> None:
    pieces = -(-rows // _MOST)
    for first in range(0, blocks, BLOCKS_AT_ONCE):
        some = min(BLOCKS_AT_ONCE, blocks - first)
        r = 0
        for piece in range(pieces):
            size = rows // pieces + (piece < rows % pieces)
            records = x + RECORD_BYTES * (r * blocks + size * first)
            _octets(size, records, w + first * BLOCK_BYTES, some, c + 4 * COLUMNS * r)
            r += size
