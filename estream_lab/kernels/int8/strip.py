"""Products of records with one strip of 32 columns of weights, by this processor's variant."""

from __future__ import annotations

from functools import cache

from estream_lab.kernels.arrays import F32
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.vector_ir import COLUMNS, address
from estream_lab.kernels.int8.apart import address_of, call_at
from estream_lab.kernels.int8.dot import DOTS
from estream_lab.kernels.int8.features import variant
from estream_lab.kernels.int8.product import product_kernel
from estream_lab.kernels.int8.records import RECORD_BYTES, quantiser
from estream_lab.kernels.int8.scratch import PANEL_BLOCKS, ROW_BLOCK
from estream_lab.kernels.int8.weights import Packed, Panel, panel_decoder
from estream_lab.kernels.layout import BLOCK_BYTES

FEW_ROWS = 32
"""Up to so many rows, each register block takes the weights apart itself: that costs it less than its part of a panel.

Measured with AVX2: a panel takes an eighth longer for 12 rows, as long for about 40, and 8 % less for 128.
"""

_DOT = DOTS[variant().name]
_MOST = _DOT.rows
PACKED_ROWS = ROW_BLOCK if _DOT.width == COLUMNS else FEW_ROWS
"""The same for this processor. Register blocks as wide as a strip take no weights apart twice: they never want a panel.

Measured with AVX-512 (Zen 4): taking apart runs beside the products for nothing, and sums stay in registers from the
first block to the last. A layer of 128 rows an expert takes 7 % less than with panels.
"""

LEAST_OF_MANY = max(1, _MOST - 1)
"""Rows of the smallest register block into which more than `FEW_ROWS` rows are cut."""

_packed = product_kernel(_DOT, Packed)
_panel = product_kernel(_DOT, Panel, least=LEAST_OF_MANY)
_decode = panel_decoder(_DOT)
quantise_record = quantiser(_DOT)


@compiled
def record_place(rows: int, blocks: int, r: int) -> tuple[int, int]:
    """Where the records of row r of a tile of `rows` rows are: byte of the first, and bytes to that of the next block.

    The rows are cut into the fewest register blocks, of sizes as equal as can be, larger ones first. Records of a
    register block lie together, block of inputs after block of inputs: a product reads them in order.
    """
    pieces = -(-rows // _MOST)
    size = rows // pieces
    in_larger = rows % pieces * (size + 1)
    if r < in_larger:
        size, within = size + 1, r % (size + 1)
    else:
        within = (r - in_larger) % size
    return RECORD_BYTES * ((r - within) * blocks + within), RECORD_BYTES * size


@compiled
def strip_product(products: tuple[int, int], x: int, rows: int, w: int, blocks: int, panel: int, tile: F32) -> None:
    """tile[: rows * 32] as (rows, 32) = `rows` rows of records times one strip of `blocks` blocks.

    x, w and panel are addresses: of the records (see `record_place`), of the strip, and of room for `PANEL_BLOCKS`
    blocks of a panel; `products` are those that `products` returns,
    or `strip_q8.products`.
    """
    for j in range(rows * COLUMNS):
        tile[j] = 0
    product = products[0] if rows <= PACKED_ROWS else products[1]
    call_at(product, x, rows, w, blocks, panel, address(tile))


@cache
def products() -> tuple[int, int]:
    """The addresses of the products for up to `PACKED_ROWS` rows, and for more."""
    few = address_of(_add_packed)
    return few, few if PACKED_ROWS == ROW_BLOCK else panel_product()


def panel_product() -> int:
    """The address of the product with panels, for `LEAST_OF_MANY` rows or more."""
    return address_of(_add_panels)


@compiled
def _add_packed(x: int, rows: int, w: int, blocks: int, panel: int, c: int) -> None:
    pieces = -(-rows // _MOST)
    r = 0
    for piece in range(pieces):
        size = rows // pieces + (piece < rows % pieces)
        _packed(size, x + RECORD_BYTES * r * blocks, w, blocks, c + 4 * COLUMNS * r)
        r += size


@compiled
def _add_panels(x: int, rows: int, w: int, blocks: int, panel: int, c: int) -> None:
    pieces = -(-rows // _MOST)
    for first in range(0, blocks, PANEL_BLOCKS):
        some = min(PANEL_BLOCKS, blocks - first)
        _decode(w + first * BLOCK_BYTES, some, panel)
        r = 0
        for piece in range(pieces):
            size = rows // pieces + (piece < rows % pieces)
            _panel(size, x + RECORD_BYTES * (r * blocks + size * first), panel, some, c + 4 * COLUMNS * r)
            r += size
