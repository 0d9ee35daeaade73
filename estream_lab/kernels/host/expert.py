"""The fused expert operator over one bank of slots, on the CPU.

``Y[t] += a * Wd (silu(Wg X[t]) * (Wu X[t]))`` for each route of each slot (paper, sections 2 and 3). Two parallel
passes: gate, up and SwiGLU by strips of FFN columns; down and the weighted scatter by strips of hidden columns, so that
no two threads write one place. A worker decodes a strip of weights to fp32 once and uses it for all rows of the slot.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

from estream_lab.kernels.host.arrays import as_input, as_output
from estream_lab.kernels.host.decode import decode_strip
from estream_lab.kernels.host.exponential import silu
from estream_lab.kernels.host.threads import parallel
from estream_lab.kernels.host.tile import ROW_BLOCK, strip_product
from estream_lab.kernels.host.vector_ir import COLUMNS
from estream_lab.kernels.layout import LAYOUTS, projection_bytes


class Scratch:
    """All temporaries of `expert_bank`, allocated once.

    Args:
        max_rows: C, the most routes of one call.
        hidden: H of the largest expert.
        ffn: F of the largest expert.
        threads: the most threads that will run.
    """

    def __init__(self, max_rows: int, hidden: int, ffn: int, threads: int) -> None:
        if min(max_rows, hidden, ffn, threads) < 1:
            raise ValueError("scratch memory needs at least one row, column and thread")
        self.max_rows, self.hidden, self.ffn, self.threads = max_rows, hidden, ffn, threads
        self.act = np.empty(max_rows * ffn, np.float32)  # (C, F): SwiGLU of every route
        # A decoded gate and up strip, or a down strip, of each thread; and the scales of a block.
        self.panels = np.empty((threads, max(2 * hidden, ffn) * COLUMNS), np.float32)
        self.scales = np.empty((threads, COLUMNS), np.float32)
        self.tiles = np.empty((threads, 2, ROW_BLOCK, COLUMNS), np.float32)  # sums of a gate and up tile
        self.index = np.arange(max_rows, dtype=np.int32)  # the routes' rows of act

    @property
    def nbytes(self) -> int:
        """Bytes of all temporaries."""
        return sum(a.nbytes for a in (self.act, self.panels, self.scales, self.tiles, self.index))


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

    Routes are visited slot by slot, then in order: y is the same for any number of threads. The scatter multiplies, then
    adds, without fusing. Results of q4-32x32 equal, bit for bit, those of f32 on the dequantised weights.

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
    x = as_input(x, np.float32, (None, hidden), "x")
    y = as_output(y, np.float32, (len(x), hidden), "y")
    offsets = as_input(offsets, np.int64, (None,), "offsets")
    slots = len(offsets) - 1
    token = as_input(token, np.int32, (None,), "token")
    weight = as_input(weight, np.float32, (len(token),), "weight")
    planes = [as_input(p, np.int64, (slots,), name) for p, name in ((gate, "gate"), (up, "up"), (down, "down"))]
    _check_routes(offsets, token, len(x))
    _check_arena(arena, planes, offsets, hidden, ffn, layout)
    _check_scratch(scratch, len(token), hidden, ffn)
    words = as_input(arena[: len(arena) // 4 * 4].view(np.uint32), np.uint32, (None,), "arena")
    quantised = layout == "q4-32x32"
    with parallel() as workers:
        workers = min(workers, scratch.threads)
        for phase in (0, 1):
            _expert_bank(
                phase, x, y, offsets, token, weight, words, *planes, hidden, ffn, quantised,
                scratch.act, scratch.index, scratch.panels, scratch.scales, scratch.tiles, workers,
            )  # fmt: skip


def _check_routes(offsets: NDArray[np.int64], token: NDArray[np.int32], tokens: int) -> None:
    if len(offsets) < 1 or offsets[0] != 0 or offsets[-1] != len(token) or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"offsets must rise from 0 to the number of routes, {len(token)}")
    if len(token) and not (0 <= token.min() and token.max() < tokens):
        raise ValueError(f"a route names token {token.min()} or {token.max()} of {tokens}")


def _check_arena(
    arena: NDArray[np.uint8],
    planes: list[NDArray[np.int64]],
    offsets: NDArray[np.int64],
    hidden: int,
    ffn: int,
    layout: str,
) -> None:
    if layout not in LAYOUTS:
        raise ValueError(f"the host kernels read the layouts {', '.join(LAYOUTS)}, not {layout!r}")
    if arena.ndim != 1 or arena.dtype != np.uint8 or not arena.flags.c_contiguous or arena.ctypes.data % 4:
        raise ValueError("the arena must be a flat, contiguous array of bytes at an address that is a multiple of 4")
    used = offsets[1:] > offsets[:-1]
    for plane, sizes in zip(planes, ((ffn, hidden), (ffn, hidden), (hidden, ffn)), strict=True):
        end = len(arena) - projection_bytes(layout, *sizes)
        first = plane[used]
        if len(first) and (first.min() < 0 or first.max() > end or (first % 4).any()):
            raise ValueError(
                f"a slot's projection lies outside the arena of {len(arena)} bytes, or off a multiple of 4"
            )


def _check_scratch(scratch: Scratch, routes: int, hidden: int, ffn: int) -> None:
    if routes > scratch.max_rows or hidden > scratch.hidden or ffn > scratch.ffn:
        raise ValueError(
            f"scratch memory for {scratch.max_rows} routes of {scratch.hidden} x {scratch.ffn} cannot hold {routes} of"
            f" {hidden} x {ffn}"
        )


@njit(nogil=True, cache=True, error_model="numpy")
def _gate_up(x, offsets, token, words, gate, up, hidden, ffn, quantised, act, panel, scales, tile, worker, workers):
    """act (n, F) = silu(Wg x) * (Wu x) for the FFN strips of one worker."""
    size = hidden * COLUMNS
    gates, ups = tile[0], tile[1]
    for slot in range(len(offsets) - 1):
        begin, end = offsets[slot], offsets[slot + 1]
        if begin == end:
            continue
        for strip in range(worker, ffn // COLUMNS, workers):
            decode_strip(words, gate[slot] // 4, strip, hidden, quantised, panel, 0, scales)
            decode_strip(words, up[slot] // 4, strip, hidden, quantised, panel, size, scales)
            for first in range(begin, end, ROW_BLOCK):
                rows = min(ROW_BLOCK, end - first)
                strip_product(x, token, first, rows, hidden, panel, 0, hidden, gates)
                strip_product(x, token, first, rows, hidden, panel, size, hidden, ups)
                for r in range(rows):
                    at = (first + r) * ffn + strip * COLUMNS
                    for j in range(COLUMNS):
                        act[at + j] = silu(gates[r, j]) * ups[r, j]


@njit(nogil=True, cache=True, error_model="numpy")
def _down(
    y, offsets, token, weight, words, down, hidden, ffn, quantised, act, index, panel, scales, tile, worker, workers
):  # fmt: skip
    """y[t] += a * (Wd act) for the hidden strips of one worker."""
    sums = tile[0]
    for slot in range(len(offsets) - 1):
        begin, end = offsets[slot], offsets[slot + 1]
        if begin == end:
            continue
        for strip in range(worker, hidden // COLUMNS, workers):
            decode_strip(words, down[slot] // 4, strip, ffn, quantised, panel, 0, scales)
            left = strip * COLUMNS
            for first in range(begin, end, ROW_BLOCK):
                rows = min(ROW_BLOCK, end - first)
                strip_product(act, index, first, rows, ffn, panel, 0, ffn, sums)
                for r in range(rows):
                    t, a = token[first + r], weight[first + r]
                    for j in range(COLUMNS):
                        y[t, left + j] += a * sums[r, j]


@njit(nogil=True, cache=True, parallel=True, error_model="numpy")
def _expert_bank(
    phase, x, y, offsets, token, weight, words, gate, up, down, hidden, ffn, quantised, act, index, panels, scales, tiles,
    workers,
):  # fmt: skip
    # One parallel function for both passes: each costs seconds to compile.
    for worker in prange(workers):
        if phase == 0:
            _gate_up(
                x, offsets, token, words, gate, up, hidden, ffn, quantised, act, panels[worker], scales[worker],
                tiles[worker], worker, workers,
            )  # fmt: skip
        else:
            _down(
                y, offsets, token, weight, words, down, hidden, ffn, quantised, act, index, panels[worker],
                scales[worker], tiles[worker], worker, workers,
            )  # fmt: skip
