"""Dense projections: x Wᵀ with int8 activations and weights in strips of 32 outputs, four bits or eight each.

Two parallel passes: rows of x become records (see `records`), once for all strips; then products, by blocks of rows and
a few neighbouring strips, each written by one thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, as_input, as_output
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.threads import run_workers, threads
from estream_lab.kernels.host.vector_ir import COLUMNS, address, take_share
from estream_lab.kernels.int8 import q8, strip, strip_q8
from estream_lab.kernels.int8.records import RECORD_BYTES
from estream_lab.kernels.int8.scratch import ROW_BLOCK, LinearScratch, aligned
from estream_lab.kernels.int8.strip import quantise_record, record_place, strip_product
from estream_lab.kernels.layout import BLOCK_BYTES, pack_q4_32x32
from estream_lab.kernels.quant import quantise_q4_0

_ROWS = 16  # that are quantised as one share
_STRIPS = 2  # neighbouring strips of a share of products

U8 = NDArray[np.uint8]
Byte = TypeVar("Byte", np.int8, np.uint8)


@dataclass(frozen=True, eq=False)
class Q4Strips:
    """Q4_0 weights of a dense projection, packed for `linear_q4`.

    Attributes:
        n: N, outputs.
        k: K, inputs.
        blocks: (ceil(N / 32), K / 32, 576) uint8 in q4-32x32 (`kernels.layout`), zero weights beyond output N.
    """

    n: int
    k: int
    blocks: U8

    @staticmethod
    def bytes_for(n: int, k: int) -> int:
        """`nbytes` of a projection with N outputs and K inputs."""
        return -(-n // COLUMNS) * (k // COLUMNS) * BLOCK_BYTES

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks."""
        return self.blocks.nbytes


@dataclass(frozen=True, eq=False)
class Q8Strips:
    """Q8_0 weights of a dense projection, packed for `linear_q8`.

    Attributes:
        n: N, outputs.
        k: K, inputs.
        blocks: (ceil(N / 32), K / 32, 1088) uint8 in q8-32x32 (`q8`), zero weights beyond output N.
    """

    n: int
    k: int
    blocks: U8

    @staticmethod
    def bytes_for(n: int, k: int) -> int:
        """`nbytes` of a projection with N outputs and K inputs."""
        return -(-n // COLUMNS) * (k // COLUMNS) * q8.BLOCK_BYTES

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks."""
        return self.blocks.nbytes


def pack_q4(w: NDArray[Any]) -> Q4Strips:
    """Quantise weights (N, K) of any floating type to Q4_0 and pack them for `linear_q4`.

    Raises:
        ValueError: another number of dimensions, no output, or K isn't a positive multiple of 32.
        EStreamError: weights that Q4_0 can't hold (see `quantise_q4_0`).
    """
    n, k = _shape(w)
    blocks = pack_q4_32x32(*_whole_strips(*quantise_q4_0(w), zero=8))
    body = Q4Strips.bytes_for(n, k)  # without the padding for vector units that read blocks in pairs
    return Q4Strips(n, k, _on_lines(blocks[:body].reshape(-1, k // COLUMNS, BLOCK_BYTES)))


def pack_q8(w: NDArray[Any]) -> Q8Strips:
    """Quantise weights (N, K) of any floating type to Q8_0 and pack them for `linear_q8`.

    Raises:
        ValueError: another number of dimensions, no output, or K isn't a positive multiple of 32.
        EStreamError: weights that Q8_0 can't hold (see `q8.quantise_q8_0`).
    """
    n, k = _shape(w)
    return Q8Strips(n, k, _on_lines(q8.pack_q8_32x32(*_whole_strips(*q8.quantise_q8_0(w), zero=0))))


def _shape(w: NDArray[Any]) -> tuple[int, int]:
    if w.ndim != 2 or w.shape[0] < 1 or w.shape[1] < 1 or w.shape[1] % COLUMNS:
        raise ValueError(f"dense weights must have shape (N, K) with K a multiple of {COLUMNS}, not {w.shape}")
    return w.shape


def _whole_strips(q: NDArray[Byte], d: NDArray[np.float16], zero: int) -> tuple[NDArray[Byte], NDArray[np.float16]]:
    """Weights and scales with zero weights beyond the last output."""
    more = ((0, -len(q) % COLUMNS), (0, 0))
    return np.pad(q, more, constant_values=zero), np.pad(d, more)


def _on_lines(blocks: U8) -> U8:
    """A copy that starts at a cache line, where products are some 2 % faster: blocks are whole numbers of lines."""
    copy = aligned(blocks.nbytes).reshape(blocks.shape)
    copy[:] = blocks
    return copy


def linear_q4(
    x: NDArray[np.float32],
    w: Q4Strips,
    out: NDArray[np.float32] | None = None,
    scratch: LinearScratch | None = None,
) -> NDArray[np.float32]:
    """``x @ W.T`` with Q4_0 weights and activations quantised to int8 in blocks of 32 inputs.

    Products of a block are exact; blocks are added in ascending order, each by one fused multiply-add. An output
    depends on its own row alone: not on how rows are cut into calls, on threads, nor on the processor, bit for bit. A
    row of which an element isn't finite is NaN.

    Args:
        x: (T, K) float32.
        w: packed weights.
        out: (T, N) float32 to write to, not overlapping x.
        scratch: temporaries; with these and `out`, nothing is allocated.

    Returns:
        (T, N) float32: `out` if given.

    Raises:
        ValueError: shapes that do not fit, or scratch memory for fewer rows or inputs.
    """
    return _linear(x, w, BLOCK_BYTES, strip.products(), out, scratch)


def linear_q8(
    x: NDArray[np.float32],
    w: Q8Strips,
    out: NDArray[np.float32] | None = None,
    scratch: LinearScratch | None = None,
) -> NDArray[np.float32]:
    """``x @ W.T`` with Q8_0 weights: see `linear_q4`."""
    return _linear(x, w, q8.BLOCK_BYTES, strip_q8.products(), out, scratch)


def _linear(
    x: F32,
    w: Q4Strips | Q8Strips,
    block_bytes: int,
    by: tuple[int, int],
    out: F32 | None,
    scratch: LinearScratch | None,
) -> F32:
    x = as_input(x, np.float32, (None, w.k), "x")
    rows = len(x)
    out = np.empty((rows, w.n), np.float32) if out is None else as_output(out, np.float32, (rows, w.n), "out")
    blocks = as_input(w.blocks, np.uint8, (-(-w.n // COLUMNS), w.k // COLUMNS, block_bytes), "blocks")
    temporary = LinearScratch(max(1, rows), w.k, threads()) if scratch is None else scratch
    if rows > temporary.max_rows or w.k > temporary.inputs:
        raise ValueError(
            f"scratch memory for {temporary.max_rows} rows of {temporary.inputs} inputs cannot hold {rows} of {w.k}"
        )
    if rows == 0:
        return out
    records, panels, tiles = temporary.x, temporary.panels, temporary.tiles

    def quantise(counter: int, shares: int, worker: int) -> None:
        _quantise(x, records, counter, shares)

    def multiply(counter: int, shares: int, worker: int) -> None:
        _multiply(by, records, blocks, out, panels[worker], tiles[worker], counter, shares)

    workers = min(threads(), temporary.threads)
    passes = ((quantise, -(-rows // _ROWS)), (multiply, -(-rows // ROW_BLOCK) * -(-len(blocks) // _STRIPS)))
    for work, shares in passes:
        run_workers(work, shares, workers, shares)
    return out


@compiled
def _quantise(x: F32, records: U8, counter: int, shares: int) -> None:
    """The records of every row, block of rows after block of rows; a share is a range of rows."""
    rows, depth = x.shape
    blocks = depth // COLUMNS
    share = take_share(counter)
    while share < shares:
        first = share * _ROWS
        for r in range(first, min(first + _ROWS, rows)):
            tile = r - r % ROW_BLOCK
            place, step = record_place(min(ROW_BLOCK, rows - tile), blocks, r - tile)
            record = address(records) + RECORD_BYTES * tile * blocks + place
            for block in range(blocks):
                quantise_record(address(x) + 4 * (r * depth + COLUMNS * block), record + step * block)
        share = take_share(counter)


@compiled
def _multiply(
    by: tuple[int, int], records: U8, w: U8, out: F32, panel: U8, tile: F32, counter: int, shares: int
) -> None:
    """out = records times w; a share is a block of rows by a few strips, those of one block of rows together."""
    rows, n = out.shape
    strips, blocks, block_bytes = w.shape
    ranges = -(-strips // _STRIPS)
    share = take_share(counter)
    while share < shares:
        first, begin = share // ranges * ROW_BLOCK, share % ranges * _STRIPS
        some = min(ROW_BLOCK, rows - first)
        x = address(records) + RECORD_BYTES * first * blocks
        for s in range(begin, min(begin + _STRIPS, strips)):
            strip_product(by, x, some, address(w) + s * blocks * block_bytes, blocks, address(panel), tile)
            left = s * COLUMNS
            width = min(COLUMNS, n - left)
            for r in range(some):
                for j in range(width):
                    out[first + r, left + j] = tile[r * COLUMNS + j]
        share = take_share(counter)
