"""Products of dense projections: x Wᵀ with int8 activations and weights in strips of 32 outputs, see `strips`.

Two parallel passes: rows of x become records (see `records`), once for all strips; then products, by blocks of rows and
a few neighbouring strips, each written by one thread.
"""

from __future__ import annotations

from estream_lab.kernels.arrays import F32, U8
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.projection import LinearScratch
from estream_lab.kernels.host.threads import run_workers, threads
from estream_lab.kernels.host.vector_ir import COLUMNS, address, take_share
from estream_lab.kernels.packed.lane import Lane, row_records, strip_product
from estream_lab.kernels.packed.scratch import ROW_BLOCK

_ROWS = 16  # that are quantised as one share
_STRIPS = 2  # neighbouring strips of a share of products


def multiply_strips(x: F32, blocks: U8, lane: Lane, out: F32, scratch: LinearScratch) -> None:
    """out (T, N) = x (T, K) times strips of weights.

    Args:
        x, out, scratch: checked, see `projection.linear_call`.
        blocks: (ceil(N / 32), K / 32, bytes of a block) uint8.
        lane: products with blocks of this kind (`strip.lane`, `strip_q8.lane`).
    """
    rows = len(x)
    if rows == 0:
        return
    records, panels, tiles = scratch.rows, scratch.panels, scratch.tiles

    def quantise(counter: int, shares: int, worker: int) -> None:
        _quantise(lane, x, records, counter, shares)

    def multiply(counter: int, shares: int, worker: int) -> None:
        _multiply(lane, records, blocks, out, panels[worker], tiles[worker], counter, shares)

    workers = min(threads(), scratch.threads)
    passes = ((quantise, -(-rows // _ROWS)), (multiply, -(-rows // ROW_BLOCK) * -(-len(blocks) // _STRIPS)))
    for work, shares in passes:
        run_workers(work, shares, workers, shares)


@compiled
def _quantise(lane: Lane, x: F32, records: U8, counter: int, shares: int) -> None:
    """The records of every row, block of rows after block of rows; a share is a range of rows."""
    rows, depth = x.shape
    blocks = depth // COLUMNS
    share = take_share(counter)
    while share < shares:
        first = share * _ROWS
        for r in range(first, min(first + _ROWS, rows)):
            row_records(lane, address(x) + 4 * r * depth, r, rows, blocks, address(records))
        share = take_share(counter)


@compiled
def _multiply(lane: Lane, records: U8, w: U8, out: F32, panel: U8, tile: F32, counter: int, shares: int) -> None:
    """out = records times w; a share is a block of rows by a few strips, those of one block of rows together."""
    rows, n = out.shape
    strips, blocks, block_bytes = w.shape
    ranges = -(-strips // _STRIPS)
    share = take_share(counter)
    while share < shares:
        first, begin = share // ranges * ROW_BLOCK, share % ranges * _STRIPS
        some = min(ROW_BLOCK, rows - first)
        x = address(records) + lane.record_bytes * first * blocks
        for s in range(begin, min(begin + _STRIPS, strips)):
            strip_product(lane, x, some, address(w) + s * blocks * block_bytes, blocks, address(panel), tile)
            left = s * COLUMNS
            width = min(COLUMNS, n - left)
            for r in range(some):
                for j in range(width):
                    out[first + r, left + j] = tile[r * COLUMNS + j]
        share = take_share(counter)
