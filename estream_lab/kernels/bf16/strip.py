"""Products of records with one strip of 32 columns of weights, by this processor's variant."""

from __future__ import annotations

from functools import cache

from estream_lab.kernels.apart import address_of
from estream_lab.kernels.bf16.dot import DOTS
from estream_lab.kernels.bf16.product import register_block
from estream_lab.kernels.bf16.rounding import rounder
from estream_lab.kernels.bf16.scratch import PANEL_BLOCKS
from estream_lab.kernels.bf16.variants import variant
from estream_lab.kernels.bf16.weights import Packed, Panel, panel_decoder
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.vector_ir import COLUMNS
from estream_lab.kernels.layout import BLOCK_BYTES
from estream_lab.kernels.packed.lane import WHOLE_STRIP, Lane, least_of_many
from estream_lab.kernels.packed.product import product_kernel

_DOT = DOTS[variant().name]

_packed_kernel = product_kernel(register_block(_DOT, Packed), range(1, _DOT.rows + 1))
_panel_kernel = product_kernel(
    register_block(_DOT, Panel), range(least_of_many(_DOT.rows, _DOT.packed_rows), _DOT.rows + 1)
)
_decode = panel_decoder(_DOT)
_round_record = rounder(_DOT)


@cache
def lane() -> Lane:
    """Records in bf16, and their products with Q4_0 weights."""
    sizes = (BLOCK_BYTES, _DOT.packed_rows, WHOLE_STRIP, PANEL_BLOCKS)
    kernels = (address_of(kernel) for kernel in (round_records, _packed, _panel, _apart))
    return Lane(_DOT.record_bytes, _DOT.rows, *sizes, *kernels)


@compiled
def round_records(x: int, count: int, record: int, step: int) -> None:
    """See `Lane.records`."""
    for i in range(count):
        _round_record(x + 4 * COLUMNS * i, record + step * i)


@compiled
def _packed(rows: int, x: int, w: int, blocks: int, c: int) -> None:
    _packed_kernel(rows, x, w, blocks, c)


@compiled
def _panel(rows: int, x: int, panel: int, blocks: int, c: int) -> None:
    _panel_kernel(rows, x, panel, blocks, c)


@compiled
def _apart(w: int, blocks: int, panel: int) -> None:
    _decode(w, blocks, panel)
