"""The fused expert operator over one bank of slots, on the CPU, for any lane whose activations are records.

``Y[t] += a * Wd (silu(Wg X[t]) * (Wu X[t]))`` for each route of each slot (paper, sections 2 and 3), weights in
q4-32x32. Three parallel passes:

1. the rows that routes name, and no others, become records, slot by slot;
2. gate and up by strips of 32 FFN columns, and SwiGLU: a strip of it is one block of inputs of the third pass, so it
   becomes records where it stands, in the cache;
3. down and the weighted scatter by strips of hidden columns, so that no two threads write one place.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, I32, I64, U8
from estream_lab.kernels.bank import BankCall
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.exponential import silu
from estream_lab.kernels.host.threads import run_workers, threads
from estream_lab.kernels.host.vector_ir import COLUMNS, address, take_share
from estream_lab.kernels.layout import BLOCK_BYTES, Q4
from estream_lab.kernels.packed.lane import Lane, row_records, strip_product, tile_records
from estream_lab.kernels.packed.scatter import scatter
from estream_lab.kernels.packed.scratch import ROW_BLOCK, RecordScratch
from estream_lab.kernels.packed.weights import bring

_ROUTES = 16  # whose records are made as one share


def expert_bank(
    lane_of: Callable[[], Lane],
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
    scratch: RecordScratch,
) -> None:
    """Add the results of one bank's routes to y.

    Routes are visited slot by slot, then in order: y is the same, bit for bit, for any number of threads, cut into
    calls and processor. The scatter multiplies, then adds, without fusing. What a lane makes of tokens that aren't
    finite is told where it binds `lane_of`.

    Args:
        lane_of: the lane, whose functions are compiled when it is first called.
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
        scratch: the lane's temporaries; nothing else is allocated.

    Raises:
        ValueError: shapes or offsets that do not fit, or scratch memory that is too small.
    """
    call = BankCall.checked(x, y, offsets, token, weight, arena, (gate, up, down), hidden, ffn, Q4)
    scratch.check(len(call.token), hidden, ffn)
    if len(call.token) == 0:
        return
    lane, panels, tiles = lane_of(), scratch.panels, scratch.tiles
    offsets = call.offsets

    def make_records(counter: int, shares: int, worker: int) -> None:
        _make_records(lane, call.x, offsets, call.token, scratch.x, counter, shares)

    def gate_up(counter: int, shares: int, worker: int) -> None:
        room = (panels[worker], tiles[worker], counter, shares)
        _gate_up(lane, offsets, call.arena, call.gate, call.up, hidden, ffn, scratch.x, scratch.act, *room)

    def project_down(counter: int, shares: int, worker: int) -> None:
        room = (panels[worker], tiles[worker], counter, shares)
        _down(lane, call.y, offsets, call.token, call.weight, call.arena, call.down, ffn, scratch.act, *room)

    workers = min(threads(), scratch.threads)
    passes = (
        (make_records, -(-len(call.token) // _ROUTES)),
        (gate_up, len(call.gate) * (ffn // COLUMNS)),
        (project_down, -(-hidden // (COLUMNS * scratch.TILES))),
    )
    for work, shares in passes:
        run_workers(work, shares, workers, shares)


@compiled
def _make_records(lane: Lane, x: F32, offsets: I64, token: I32, records: U8, counter: int, shares: int) -> None:
    """The records of every route's row of x; a share is a range of routes."""
    hidden = x.shape[1]
    blocks = hidden // COLUMNS
    share = take_share(counter)
    while share < shares:
        first = share * _ROUTES
        for slot in range(len(offsets) - 1):
            rows = offsets[slot + 1] - offsets[slot]
            to = address(records) + lane.record_bytes * offsets[slot] * blocks
            for i in range(max(first, offsets[slot]), min(first + _ROUTES, offsets[slot + 1])):
                row_records(lane, address(x) + 4 * hidden * token[i], i - offsets[slot], rows, blocks, to)
        share = take_share(counter)


@compiled
def _gate_up(
    lane: Lane, offsets: I64, arena: U8, gate: I64, up: I64, hidden: int, ffn: int, x: U8, act: U8, panel: U8,
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
            records = address(x) + lane.record_bytes * first * blocks
            bring(weights + up[slot])
            strip_product(lane, records, some, weights + gate[slot], blocks, address(panel), gates)
            bring(weights + gate[slot] + 2 * blocks * BLOCK_BYTES)  # with two threads, this one's next share
            strip_product(lane, records, some, weights + up[slot], blocks, address(panel), ups)
            for j in range(some * COLUMNS):
                gates[j] = silu(gates[j]) * ups[j]
            tile_records(lane, gates, some, strips, strip, address(act) + lane.record_bytes * first * strips)
        share = take_share(counter)


@compiled
def _down(
    lane: Lane, y: F32, offsets: I64, token: I32, weight: F32, arena: U8, down: I64, ffn: int, act: U8, panel: U8,
    tiles: F32, counter: int, shares: int,
) -> None:  # fmt: skip
    """y[t] += a * (Wd act); a share is as many neighbouring hidden strips as there are tiles."""
    slots, hidden, blocks = len(offsets) - 1, y.shape[1], ffn // COLUMNS
    share = take_share(counter)
    while share < shares:
        begin = share * len(tiles)
        strips = min(len(tiles), hidden // COLUMNS - begin)
        for slot in range(slots):
            for first in range(offsets[slot], offsets[slot + 1], ROW_BLOCK):
                some = min(ROW_BLOCK, offsets[slot + 1] - first)
                records = address(act) + lane.record_bytes * first * blocks
                bring(address(arena) + down[min(slot + 1, slots - 1)] + begin * blocks * BLOCK_BYTES)
                for s in range(strips):
                    weights = address(arena) + down[slot] + (begin + s) * blocks * BLOCK_BYTES
                    strip_product(lane, records, some, weights, blocks, address(panel), tiles[s])
                scatter(address(y) + 4 * COLUMNS * begin, hidden, token, weight, first, some, tiles, strips)
        share = take_share(counter)
