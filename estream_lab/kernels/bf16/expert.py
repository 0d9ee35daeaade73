"""The fused expert operator over one bank of slots, on the CPU, with activations in bf16.

``Y[t] += a * Wd (silu(Wg X[t]) * (Wu X[t]))`` for each route of each slot (paper, sections 2 and 3), weights in
q4-32x32. Three parallel passes:

1. round: the rows that routes name, and no others, become records (see `rounding`), slot by slot;
2. gate and up by strips of 32 FFN columns, and SwiGLU: a strip of it is one block of inputs of the third pass, so it is
   rounded where it stands, in the cache;
3. down and the weighted scatter by strips of hidden columns, so that no two threads write one place.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, I32, I64, U8
from estream_lab.kernels.bank import BankCall
from estream_lab.kernels.bf16.scratch import ROW_BLOCK, STRIPS, Scratch
from estream_lab.kernels.bf16.strip import RECORD_BYTES, piece, products, round_record, strip_product
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.exponential import silu
from estream_lab.kernels.host.threads import run_workers, threads
from estream_lab.kernels.host.vector_ir import COLUMNS, address, take_share
from estream_lab.kernels.int8.scatter import scatter
from estream_lab.kernels.layout import BLOCK_BYTES, Q4

_ROUTES = 16  # that are rounded as one share


def expert_bank(
    x: NDArray[np.float32],
    y: NDArray[np.float32],
    offsets: NDArray[np.int64],
    token: NDArray[np.int32],
    weight: NDArray[np.float32],
    arena: NDArray[np.uint8],
    gate: NDArray[np.int64],
    up: NDArray[np.int64],
    down: NDArray[np.int64],
    hidden: int,
    ffn: int,
    scratch: Scratch,
) -> None:
    """Add the results of one bank's routes to y.

    Routes are visited slot by slot, then in order: y is the same, bit for bit, for any number of threads, cut into
    calls and processor. The scatter multiplies, then adds, without fusing. A token of which an element isn't finite, or
    is beyond bf16, gets no finite number from any route, and neither does one whose SwiGLU overflows.

    Args:
        x: (T, H) float32 activations.
        y: (T, H) float32 to add to.
        offsets: (S + 1,) int64; slot s has the routes offsets[s]..offsets[s + 1].
        token: (n,) int32, row of x and y of each route.
        weight: (n,) float32 of each route.
        arena: bytes that hold the slots' projections, in q4-32x32.
        gate: (S,) int64, byte offset in `arena` of each slot's gate projection (F x H), a multiple of 4. Offsets of
            slots without routes are not looked at.
        up: (S,) int64, likewise (F x H).
        down: (S,) int64, likewise (H x F).
        hidden: H, a multiple of 32.
        ffn: F, a multiple of 32.
        scratch: temporaries; nothing else is allocated.

    Raises:
        ValueError: shapes or offsets that do not fit, or scratch memory that is too small.
    """
    call = BankCall.checked(x, y, offsets, token, weight, arena, (gate, up, down), hidden, ffn, Q4)
    scratch.check(len(call.token), hidden, ffn)
    if len(call.token) == 0:
        return
    by, panels, tiles = products(), scratch.panels, scratch.tiles
    offsets = call.offsets

    def round_rows(counter: int, shares: int, worker: int) -> None:
        _round(call.x, offsets, call.token, hidden, scratch.x, counter, shares)

    def gate_up(counter: int, shares: int, worker: int) -> None:
        room = (panels[worker], tiles[worker], counter, shares)
        _gate_up(by, offsets, call.arena, call.gate, call.up, hidden, ffn, scratch.x, scratch.act, *room)

    def project_down(counter: int, shares: int, worker: int) -> None:
        room = (panels[worker], tiles[worker], counter, shares)
        _down(by, call.y, offsets, call.token, call.weight, call.arena, call.down, hidden, ffn, scratch.act, *room)

    workers = min(threads(), scratch.threads)
    passes = (
        (round_rows, -(-len(call.token) // _ROUTES)),
        (gate_up, len(call.gate) * (ffn // COLUMNS)),
        (project_down, -(-hidden // (COLUMNS * STRIPS))),
    )
    for work, shares in passes:
        run_workers(work, shares, workers, shares)


@compiled
def _place(rows: int, r: int, blocks: int) -> tuple[int, int]:
    """Where the records of row r of a tile of `rows` rows are: byte of the first, and bytes to that of the next block.

    Records of a register block lie together, block of inputs after block of inputs: a product reads them in order.
    """
    first, some = piece(rows, r)
    return RECORD_BYTES * (first * blocks + r - first), RECORD_BYTES * some


@compiled
def _round(x: F32, offsets: I64, token: I32, hidden: int, records: U8, counter: int, shares: int) -> None:
    """The records of every route's row of x; a share is a range of routes."""
    blocks = hidden // COLUMNS
    share = take_share(counter)
    while share < shares:
        begin = share * _ROUTES
        for slot in range(len(offsets) - 1):
            for i in range(max(begin, offsets[slot]), min(begin + _ROUTES, offsets[slot + 1])):
                r = i - offsets[slot]
                tile = r - r % ROW_BLOCK
                place, step = _place(min(ROW_BLOCK, offsets[slot + 1] - offsets[slot] - tile), r - tile, blocks)
                record = address(records) + RECORD_BYTES * (offsets[slot] + tile) * blocks + place
                row = address(x) + 4 * hidden * token[i]
                for block in range(blocks):
                    round_record(row + 4 * COLUMNS * block, record + step * block)
        share = take_share(counter)


@compiled
def _gate_up(
    by: tuple[int, int], offsets: I64, arena: U8, gate: I64, up: I64, hidden: int, ffn: int, x: U8, act: U8, panel: U8,
    tiles: F32, counter: int, shares: int,
) -> None:  # fmt: skip
    """The records of silu(Wg x) * (Wu x); a share is an FFN strip of a slot."""
    strips, blocks = ffn // COLUMNS, hidden // COLUMNS
    gates, ups = tiles[0], tiles[1]
    share = take_share(counter)
    while share < shares:
        slot, strip = share // strips, share % strips
        weights = address(arena) + strip * blocks * BLOCK_BYTES
        for first in range(offsets[slot], offsets[slot + 1], ROW_BLOCK):
            some = min(ROW_BLOCK, offsets[slot + 1] - first)
            records = address(x) + RECORD_BYTES * first * blocks
            strip_product(by, records, some, weights + gate[slot], blocks, address(panel), gates)
            strip_product(by, records, some, weights + up[slot], blocks, address(panel), ups)
            for j in range(some * COLUMNS):
                gates[j] = silu(gates[j]) * ups[j]
            out = address(act) + RECORD_BYTES * first * strips
            for r in range(some):
                place, step = _place(some, r, strips)
                round_record(address(gates) + 4 * COLUMNS * r, out + place + step * strip)
        share = take_share(counter)


@compiled
def _down(
    by: tuple[int, int], y: F32, offsets: I64, token: I32, weight: F32, arena: U8, down: I64, hidden: int, ffn: int,
    act: U8, panel: U8, tiles: F32, counter: int, shares: int,
) -> None:  # fmt: skip
    """y[t] += a * (Wd act); a share is a few neighbouring hidden strips."""
    strips, blocks = hidden // COLUMNS, ffn // COLUMNS
    share = take_share(counter)
    while share < shares:
        begin = share * STRIPS
        some_strips = min(STRIPS, strips - begin)
        for slot in range(len(offsets) - 1):
            for first in range(offsets[slot], offsets[slot + 1], ROW_BLOCK):
                some = min(ROW_BLOCK, offsets[slot + 1] - first)
                records = address(act) + RECORD_BYTES * first * blocks
                for s in range(some_strips):
                    weights = address(arena) + down[slot] + (begin + s) * blocks * BLOCK_BYTES
                    strip_product(by, records, some, weights, blocks, address(panel), tiles[s])
                to = address(y) + 4 * COLUMNS * begin
                scatter(to, hidden, token, weight, first, some, tiles, some_strips)
        share = take_share(counter)
