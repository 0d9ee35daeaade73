"""The fused expert operator over one bank of slots, on the CPU.

``Y[t] += a * Wd (silu(Wg X[t]) * (Wu X[t]))`` for each route of each slot (paper, sections 2 and 3). Two parallel
passes: gate, up and SwiGLU by strips of FFN columns; down and the weighted scatter by strips of hidden columns, so that
no two threads write one place. A worker decodes some weights of a strip to fp32 and uses them for up to 192 rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, I32, I64, U8
from estream_lab.kernels.bank import BankCall, BankScratch
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.exponential import silu
from estream_lab.kernels.host.threads import run_workers, threads
from estream_lab.kernels.host.tile import DEPTH_BLOCK, ROW_BLOCK, strip_product, strip_product_q4
from estream_lab.kernels.host.vector_ir import COLUMNS, address, take_share
from estream_lab.kernels.layout import BLOCK_BYTES, Q4


class Scratch(BankScratch):
    """All temporaries of `expert_bank`, allocated once."""

    def __init__(self, max_rows: int, hidden: int, ffn: int, threads: int) -> None:
        super().__init__(max_rows, hidden, ffn, threads)
        self.act = np.empty(max_rows * ffn, np.float32)  # (C, F): SwiGLU of every route
        # Of each thread: decoded weights, and tiles of sums (down takes the first).
        self.panels = np.empty((threads, DEPTH_BLOCK * COLUMNS), np.float32)
        self.tiles = np.empty((threads, 2, ROW_BLOCK, COLUMNS), np.float32)
        self.index = np.arange(max_rows, dtype=np.int32)  # the routes' rows of act

    @staticmethod
    def bytes_for(max_rows: int, hidden: int, ffn: int, threads: int) -> int:
        """`nbytes` of scratch memory of this size."""
        thread = DEPTH_BLOCK * COLUMNS + 2 * ROW_BLOCK * COLUMNS
        return 4 * (max_rows * ffn + threads * thread + max_rows)


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
    layout: str,
    scratch: Scratch,
) -> None:
    """Add the results of one bank's routes to y.

    Routes are visited slot by slot, then in order: y is the same for any number of threads. The scatter multiplies,
    then adds, without fusing. Results of q4-32x32 equal, bit for bit, those of f32 on the dequantised weights.

    Args:
        x: (T, H) float32 activations.
        y: (T, H) float32 to add to.
        offsets: (S + 1,) int64; slot s has the routes offsets[s]..offsets[s + 1].
        token: (n,) int32, row of x and y of each route.
        weight: (n,) float32 of each route.
        arena: bytes that hold the slots' projections.
        gate: (S,) int64, byte offset in `arena` of each slot's gate projection (F x H), a multiple of 4. Offsets of
            slots without routes are not looked at.
        up: (S,) int64, likewise (F x H).
        down: (S,) int64, likewise (H x F).
        hidden: H, a multiple of 32.
        ffn: F, a multiple of 32.
        layout: 'q4-32x32' or 'f32'.
        scratch: temporaries; nothing else is allocated.

    Raises:
        ValueError: shapes or offsets that do not fit, an unknown layout, or scratch memory that is too small.
    """
    call = BankCall.checked(x, y, offsets, token, weight, arena, (gate, up, down), hidden, ffn, layout)
    scratch.check(len(call.token), hidden, ffn)
    common = (call.offsets, call.token, call.arena, hidden, ffn, layout == Q4, scratch.act)

    def gate_up(counter: int, shares: int, worker: int) -> None:
        room = (scratch.panels[worker], scratch.tiles[worker, 0], scratch.tiles[worker, 1])
        _gate_up(call.x, *common, call.gate, call.up, *room, counter, shares)

    def project_down(counter: int, shares: int, worker: int) -> None:
        room = (scratch.panels[worker], scratch.tiles[worker, 0])
        _down(call.y, *common, call.down, call.weight, scratch.index, *room, counter, shares)

    workers = min(threads(), scratch.threads)
    run_workers(gate_up, ffn // COLUMNS, workers)
    run_workers(project_down, hidden // COLUMNS, workers)


@compiled
def _product(
    x: int, index: int, rows: int, depth: int, projection: int, strip: int, quantised: bool, panel: F32, tile: F32
) -> None:
    """tile[:rows] = the rows that `index` names times one strip; x, index and projection are addresses."""
    if quantised:
        weights = projection + strip * (depth // COLUMNS) * BLOCK_BYTES
        strip_product_q4(x, index, rows, depth, weights, depth, address(panel), tile)
    else:
        strip_product(x, index, rows, depth, projection + 4 * strip * depth * COLUMNS, depth, tile)


@compiled
def _gate_up(
    x: F32, offsets: I64, token: I32, arena: U8, hidden: int, ffn: int, quantised: bool, act: F32,
    gate: I64, up: I64, panel: F32, gates: F32, ups: F32, counter: int, shares: int,
) -> None:  # fmt: skip
    """act (n, F) = silu(Wg x) * (Wu x); a share is a range of FFN strips."""
    strips = ffn // COLUMNS
    share = take_share(counter)
    while share < shares:
        for slot in range(len(offsets) - 1):
            for strip in range(strips * share // shares, strips * (share + 1) // shares):
                for first in range(offsets[slot], offsets[slot + 1], ROW_BLOCK):
                    rows = min(ROW_BLOCK, offsets[slot + 1] - first)
                    index = address(token) + 4 * first
                    for plane, tile in ((gate, gates), (up, ups)):
                        projection = address(arena) + plane[slot]
                        _product(address(x), index, rows, hidden, projection, strip, quantised, panel, tile)
                    for r in range(rows):
                        at = (first + r) * ffn + strip * COLUMNS
                        for j in range(COLUMNS):
                            act[at + j] = silu(gates[r, j]) * ups[r, j]
        share = take_share(counter)


@compiled
def _down(
    y: F32, offsets: I64, token: I32, arena: U8, hidden: int, ffn: int, quantised: bool, act: F32,
    down: I64, weight: F32, index: I32, panel: F32, sums: F32, counter: int, shares: int,
) -> None:  # fmt: skip
    """y[t] += a * (Wd act); a share is a range of hidden strips."""
    strips = hidden // COLUMNS
    share = take_share(counter)
    while share < shares:
        for slot in range(len(offsets) - 1):
            projection = address(arena) + down[slot]
            for strip in range(strips * share // shares, strips * (share + 1) // shares):
                left = strip * COLUMNS
                for first in range(offsets[slot], offsets[slot + 1], ROW_BLOCK):
                    rows = min(ROW_BLOCK, offsets[slot + 1] - first)
                    routes = address(index) + 4 * first
                    _product(address(act), routes, rows, ffn, projection, strip, quantised, panel, sums)
                    for r in range(rows):
                        t, a = token[first + r], weight[first + r]
                        for j in range(COLUMNS):
                            y[t, left + j] += a * sums[r, j]
        share = take_share(counter)
