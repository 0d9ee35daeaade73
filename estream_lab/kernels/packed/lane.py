"""What the compiled loops of this room know of a lane, and what they do with it: records, and products with a strip.

A lane is numbers and addresses of its own compiled functions (`kernels.apart`), so that one version of each loop serves
every lane, and a process compiles the functions of the lanes that it uses and no others.
"""

from __future__ import annotations

from typing import NamedTuple

from estream_lab.kernels.apart import call_at
from estream_lab.kernels.arrays import F32
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.vector_ir import COLUMNS, address
from estream_lab.kernels.packed.scratch import ROW_BLOCK

WHOLE_STRIP = 1 << 40
"""More blocks than any strip has."""


class Lane(NamedTuple):
    """A kind of records, and products of them with strips of one kind of blocks.

    Attributes:
        record_bytes: of a row's 32 activations.
        block_rows: of the largest register block.
        block_bytes: from a block of a strip to the next.
        packed_rows: up to so many rows, register blocks read the strip itself; for more, weights are taken apart.
        packed_blocks: of the strip that all rows are multiplied by before the next: it stays in the cache.
        panel_blocks: that are taken apart at a time, likewise.
        records: address of ``records(x, count, record, step)``: `count` times 32 float32 numbers, one after the other
            from the address x on, become records, the first at `record` and each `step` bytes behind the last.
        packed: address of a `product.product_kernel` for 1..block_rows rows that reads the strip.
        panel: address of one that reads a panel, for the register blocks that more than `packed_rows` rows are cut to.
        apart: address of ``apart(w, blocks, panel)``, which makes the panel of `blocks` blocks.
    """

    record_bytes: int
    block_rows: int
    block_bytes: int
    packed_rows: int
    packed_blocks: int
    panel_blocks: int
    records: int
    packed: int
    panel: int
    apart: int


def least_of_many(most: int, packed_rows: int) -> int:
    """Rows of the smallest register block into which tiles of more than `packed_rows` rows are cut: see `cut`."""
    return min(rows // -(-rows // most) for rows in range(packed_rows + 1, ROW_BLOCK + 1))


@compiled
def cut(rows: int, most: int) -> tuple[int, int]:
    """How a tile's rows are cut into register blocks: the fewest, of sizes as equal as can be, larger ones first.

    Returns:
        (size, end): those that begin before row `end` have size + 1 rows, the others `size`.
    """
    blocks = -(-rows // most)
    return rows // blocks, rows % blocks * (rows // blocks + 1)


@compiled
def record_place(lane: Lane, rows: int, blocks: int, r: int) -> tuple[int, int]:
    """Where the records of row r of a tile of `rows` rows are: byte of the first, and bytes to that of the next block.

    Records of a register block lie together, block of inputs after block of inputs: a product reads them in order.
    """
    size, end = cut(rows, lane.block_rows)
    if r < end:
        size, within = size + 1, r % (size + 1)
    else:
        within = (r - end) % size
    return lane.record_bytes * ((r - within) * blocks + within), lane.record_bytes * size


@compiled
def row_records(lane: Lane, x: int, r: int, rows: int, blocks: int, records: int) -> None:
    """Make the records of row r of `rows` rows, cut into tiles of `ROW_BLOCK`: `blocks` for the numbers at x.

    x and records are addresses: of the row, and of the records of all rows.
    """
    tile = r - r % ROW_BLOCK
    place, step = record_place(lane, min(ROW_BLOCK, rows - tile), blocks, r - tile)
    call_at(lane.records, x, blocks, records + lane.record_bytes * tile * blocks + place, step)


@compiled
def tile_records(lane: Lane, tile: F32, rows: int, blocks: int, block: int, records: int) -> None:
    """Make the records of a tile (rows, 32), which are number `block` of each row's `blocks`; `records` as above."""
    size, end = cut(rows, lane.block_rows)
    r = 0
    while r < rows:
        some = size + (r < end)
        place = lane.record_bytes * (r * blocks + some * block)
        call_at(lane.records, address(tile) + 4 * COLUMNS * r, some, records + place, lane.record_bytes)
        r += some


@compiled
def strip_product(lane: Lane, x: int, rows: int, w: int, blocks: int, panel: int, tile: F32) -> None:
    """tile[: rows * 32] as (rows, 32) = `rows` <= `ROW_BLOCK` rows of records times one strip of `blocks` blocks.

    x, w and panel are addresses: of the records (see `record_place`), of the strip, and of room for a panel.
    """
    for j in range(rows * COLUMNS):
        tile[j] = 0
    size, end = cut(rows, lane.block_rows)
    apart = rows > lane.packed_rows
    at_once = lane.panel_blocks if apart else lane.packed_blocks
    for first in range(0, blocks, at_once):
        some = min(at_once, blocks - first)
        weights, product = w + first * lane.block_bytes, lane.packed
        if apart:
            call_at(lane.apart, weights, some, panel)
            weights, product = panel, lane.panel
        r = 0
        while r < rows:
            block_rows = size + (r < end)
            records = x + lane.record_bytes * (r * blocks + block_rows * first)
            call_at(product, block_rows, records, weights, some, address(tile) + 4 * COLUMNS * r)
            r += block_rows
