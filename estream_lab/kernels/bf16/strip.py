"""Products of records with one strip of 32 columns of weights, by this processor's variant."""

from __future__ import annotations

from functools import cache

from estream_lab.kernels.arrays import F32
from estream_lab.kernels.bf16.dot import DOTS, Dot
from estream_lab.kernels.bf16.product import product_kernel
from estream_lab.kernels.bf16.rounding import rounder
from estream_lab.kernels.bf16.scratch import PANEL_BLOCKS, ROW_BLOCK
from estream_lab.kernels.bf16.variants import variant
from estream_lab.kernels.bf16.weights import Packed, Panel, panel_decoder
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.vector_ir import COLUMNS, address
from estream_lab.kernels.int8.apart import address_of, call_at
from estream_lab.kernels.layout import BLOCK_BYTES


def least_of_many(dot: Dot) -> int:
    """Rows of the smallest register block into which a tile of more than `packed_rows` rows is cut."""
    return min(rows // -(-rows // dot.rows) for rows in range(dot.packed_rows + 1, ROW_BLOCK + 1))


_DOT = DOTS[variant().name]
_MOST, _PACKED_ROWS = _DOT.rows, _DOT.packed_rows
RECORD_BYTES = _DOT.record_bytes

_packed = product_kernel(_DOT, Packed)
_panel = product_kernel(_DOT, Panel, least=least_of_many(_DOT))
_decode = panel_decoder(_DOT)
round_record = rounder(_DOT)


@compiled
def piece(rows: int, r: int) -> tuple[int, int]:
    """First row and number of rows of the register block that row r of a tile of `rows` rows lies in.

    The rows are cut into the fewest register blocks, of sizes as equal as can be, larger ones first.
    """
    pieces = -(-rows // _MOST)
    size = rows // pieces
    in_larger = rows % pieces * (size + 1)
    if r < in_larger:
        return r - r % (size + 1), size + 1
    return r - (r - in_larger) % size, size


@compiled
def strip_product(products: tuple[int, int], x: int, rows: int, w: int, blocks: int, panel: int, tile: F32) -> None:
    """tile[: rows * 32] as (rows, 32) = `rows` rows of records times one strip of `blocks` blocks.

    x, w and panel are addresses: of the tile's records, register block by register block (see `piece`), of the strip,
    and of room for `PANEL_BLOCKS` blocks of a panel; `products` are those that `products` returns.
    """
    for j in range(rows * COLUMNS):
        tile[j] = 0
    product = products[0] if rows <= _PACKED_ROWS else products[1]
    call_at(product, x, rows, w, blocks, panel, address(tile))


@cache
def products() -> tuple[int, int]:
    """The addresses of the products with packed weights and with panels."""
    return address_of(_add_packed), address_of(_add_panels)


@compiled
def _add_packed(x: int, rows: int, w: int, blocks: int, panel: int, c: int) -> None:
    left = rows
    while left > 0:
        first, some = piece(rows, rows - left)
        _packed(some, x + RECORD_BYTES * first * blocks, w, blocks, c + 4 * COLUMNS * first)
        left -= some


@compiled
def _add_panels(x: int, rows: int, w: int, blocks: int, panel: int, c: int) -> None:
    for block in range(0, blocks, PANEL_BLOCKS):
        some_blocks = min(PANEL_BLOCKS, blocks - block)
        _decode(w + block * BLOCK_BYTES, some_blocks, panel)
        left = rows
        while left > 0:
            first, some = piece(rows, rows - left)
            records = x + RECORD_BYTES * (first * blocks + some * block)
            _panel(some, records, panel, some_blocks, c + 4 * COLUMNS * first)
            left -= some
