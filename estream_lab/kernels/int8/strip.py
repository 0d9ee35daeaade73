"""Products of records with one strip of 32 columns of weights, by this processor's variant."""

from __future__ import annotations

from functools import cache

from estream_lab.kernels.apart import address_of
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.vector_ir import COLUMNS
from estream_lab.kernels.int8.dot import DOTS
from estream_lab.kernels.int8.features import variant
from estream_lab.kernels.int8.product import register_block
from estream_lab.kernels.int8.records import RECORD_BYTES, quantiser
from estream_lab.kernels.int8.scratch import PANEL_BLOCKS
from estream_lab.kernels.int8.weights import Packed, Panel, panel_decoder
from estream_lab.kernels.layout import BLOCK_BYTES
from estream_lab.kernels.packed.lane import WHOLE_STRIP, Lane, least_of_many
from estream_lab.kernels.packed.product import product_kernel
from estream_lab.kernels.packed.scratch import ROW_BLOCK

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

_packed_kernel = product_kernel(register_block(_DOT, Packed), range(1, _MOST + 1))
_panel_kernel = product_kernel(register_block(_DOT, Panel), range(least_of_many(_MOST, FEW_ROWS), _MOST + 1))
_decode = panel_decoder(_DOT)
_quantise_record = quantiser(_DOT)


@cache
def lane() -> Lane:
    """Records in int8, and their products with Q4_0 weights."""
    return lane_of(PACKED_ROWS)


def lane_of(packed_rows: int) -> Lane:
    """`lane` with panels for more than so many rows, at least `FEW_ROWS`; nothing for panels is compiled in vain."""
    panels = (address_of(_panel), address_of(_apart)) if packed_rows < ROW_BLOCK else (0, 0)
    sizes = (BLOCK_BYTES, packed_rows, WHOLE_STRIP, PANEL_BLOCKS)
    return Lane(RECORD_BYTES, _MOST, *sizes, address_of(quantise), address_of(_packed), *panels)


@compiled
def quantise(x: int, count: int, record: int, step: int) -> None:
    """See `Lane.records`."""
    for i in range(count):
        _quantise_record(x + 4 * COLUMNS * i, record + step * i)


@compiled
def _packed(rows: int, x: int, w: int, blocks: int, c: int) -> None:
    _packed_kernel(rows, x, w, blocks, c)


@compiled
def _panel(rows: int, x: int, panel: int, blocks: int, c: int) -> None:
    _panel_kernel(rows, x, panel, blocks, c)


@compiled
def _apart(w: int, blocks: int, panel: int) -> None:
    _decode(w, blocks, panel)
