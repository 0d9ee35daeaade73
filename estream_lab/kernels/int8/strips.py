"""Weights of dense projections, four bits or eight each, in strips of 32 outputs, for activations in int8.

Of a product, the sums of a block of 32 inputs are exact; blocks are added in ascending order, each by one fused
multiply-add. An output depends on its own row alone: not on how rows are cut into calls, on threads, nor on the
processor, bit for bit. A row of which an element isn't finite is NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, U8, aligned, as_input
from estream_lab.kernels.host.projection import LinearScratch, LinearSizes, linear_call
from estream_lab.kernels.host.vector_ir import COLUMNS
from estream_lab.kernels.int8 import q8, strip, strip_q8
from estream_lab.kernels.int8.dense import multiply_strips
from estream_lab.kernels.int8.scratch import linear_sizes
from estream_lab.kernels.layout import BLOCK_BYTES, NIBBLE_BYTES, pack_q4_32x32
from estream_lab.kernels.packed.lane import Lane
from estream_lab.kernels.quant import quantise_q4_0

Byte = TypeVar("Byte", np.int8, np.uint8)

_STRIPS_AT_ONCE = 32


@dataclass(frozen=True, eq=False)
class Strips:
    """Quantised weights of a dense projection: see `projection.Projection`.

    Attributes:
        n: N, outputs.
        k: K, inputs, a multiple of 32.
        blocks: uint8 of `shape_for`, zero weights beyond output N.
    """

    BLOCK_BYTES: ClassVar[int]

    n: int
    k: int
    blocks: U8

    @classmethod
    def shape_for(cls, n: int, k: int) -> tuple[int, int, int]:
        """(ceil(N / 32), K / 32, bytes of a block).

        Raises:
            ValueError: no output, or K isn't a positive multiple of 32.
        """
        if n < 1 or k < 1 or k % COLUMNS:
            raise ValueError(f"dense weights must have shape (N, K) with K a multiple of {COLUMNS}, not ({n}, {k})")
        return -(-n // COLUMNS), k // COLUMNS, cls.BLOCK_BYTES

    @classmethod
    def bytes_for(cls, n: int, k: int) -> int:
        """`nbytes` of a projection with N outputs and K inputs."""
        strips, blocks, block_bytes = cls.shape_for(n, k)
        return strips * blocks * block_bytes

    @staticmethod
    def sizes(k: int) -> LinearSizes:
        """Temporaries of `linear` with K inputs."""
        return linear_sizes(k)

    @classmethod
    def room(cls, n: int, k: int) -> Self:
        """Weights that are still to be written to `blocks`, which start at a cache line, where products are some 2 %
        faster: blocks are whole numbers of lines."""
        return cls(n, k, aligned(cls.bytes_for(n, k)).reshape(cls.shape_for(n, k)))

    @property
    def nbytes(self) -> int:
        """Bytes of the blocks."""
        return self.blocks.nbytes

    def linear(self, x: F32, out: F32 | None = None, scratch: LinearScratch | None = None) -> F32:
        """``x @ W.T`` with activations quantised to int8 in blocks of 32 inputs.

        Args:
            x: (T, K) float32.
            out: (T, N) float32 to write to, not overlapping x.
            scratch: temporaries; with these and `out`, nothing is allocated.

        Returns:
            (T, N) float32: `out` if given.

        Raises:
            ValueError: shapes that do not fit, or scratch memory that is too small.
        """
        x, out, scratch = linear_call(x, self, self.sizes(self.k), out, scratch)
        blocks = as_input(self.blocks, np.uint8, self.shape_for(self.n, self.k), "blocks")
        multiply_strips(x, blocks, self._lane(), out, scratch)
        return out

    def rows(self, ids: NDArray[np.integer], out: F32) -> F32:
        """Write the rows of these numbers (T,) to out (T, K), ``q * d``, which is exact; returns out."""
        for row, i in zip(out, ids, strict=True):
            blocks = row.reshape(-1, COLUMNS)
            q, d = self._column(self.blocks[i // COLUMNS], int(i % COLUMNS))
            np.multiply(q, d, out=blocks)
        return out

    def _lane(self) -> Lane:
        raise NotImplementedError

    def _column(self, strip: U8, column: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        """Weights (K / 32, 32) and scales (K / 32, 1) of one output."""
        raise NotImplementedError


class Q4Strips(Strips):
    """Q4_0 weights in q4-32x32 (`kernels.layout`), without its padding for vector units that read blocks in pairs."""

    BLOCK_BYTES = BLOCK_BYTES

    def _lane(self) -> Lane:
        return strip.lane()

    def _column(self, strip: U8, column: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        nibbles = strip[:, :NIBBLE_BYTES].reshape(-1, 4, COLUMNS, 4)[:, :, column]  # (K/32, k // 8, k % 4)
        q = np.stack([nibbles & 15, nibbles >> 4], axis=2).reshape(-1, COLUMNS)  # low: k % 8 < 4
        return q.astype(np.int8) - np.int8(8), _scales(strip, NIBBLE_BYTES, column)


class Q8Strips(Strips):
    """Q8_0 weights in q8-32x32 (`q8`)."""

    BLOCK_BYTES = q8.BLOCK_BYTES

    def _lane(self) -> Lane:
        return strip_q8.lane()

    def _column(self, strip: U8, column: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        octets = strip[:, : q8.WEIGHT_BYTES].reshape(-1, 8, COLUMNS, 4)[:, :, column]  # (K/32, k // 4, k % 4)
        return octets.reshape(-1, COLUMNS).view(np.int8), _scales(strip, q8.WEIGHT_BYTES, column)


def _scales(strip: U8, first: int, column: int) -> NDArray[np.float32]:
    """(K / 32, 1) float32 of one column, whose fp16 scales begin at byte `first` of a block."""
    halves = np.ascontiguousarray(strip[:, first + 2 * column : first + 2 * column + 2])
    return halves.view("<f2").astype(np.float32)


def pack_q4(w: NDArray[Any]) -> Q4Strips:
    """Quantise weights (N, K) of any floating type to Q4_0 and pack them.

    Raises:
        ValueError: another number of dimensions, no output, or K isn't a positive multiple of 32.
        EStreamError: weights that Q4_0 can't hold (see `quantise_q4_0`).
    """
    packed = Q4Strips.room(*_shape(w))
    q, d = quantise_q4_0(w)
    for strips, rows in _slabs(packed):
        blocks = pack_q4_32x32(*_whole_strips(q[rows], d[rows], zero=8))
        packed.blocks[strips].reshape(-1)[:] = blocks[: packed.blocks[strips].nbytes]
    return packed


def pack_q8(w: NDArray[Any]) -> Q8Strips:
    """Quantise weights (N, K) of any floating type to Q8_0 and pack them.

    Raises:
        ValueError: another number of dimensions, no output, or K isn't a positive multiple of 32.
        EStreamError: weights that Q8_0 can't hold (see `q8.quantise_q8_0`).
    """
    packed = Q8Strips.room(*_shape(w))
    q, d = q8.quantise_q8_0(w)
    for strips, rows in _slabs(packed):
        packed.blocks[strips] = q8.pack_q8_32x32(*_whole_strips(q[rows], d[rows], zero=0))
    return packed


def _shape(w: NDArray[Any]) -> tuple[int, int]:
    if w.ndim != 2:
        raise ValueError(f"dense weights must have shape (N, K) with K a multiple of {COLUMNS}, not {w.shape}")
    return w.shape


def _slabs(packed: Strips) -> Iterator[tuple[slice, slice]]:
    """Strips and rows that are packed together: temporaries of a large matrix stay small."""
    for first in range(0, len(packed.blocks), _STRIPS_AT_ONCE):
        end = first + _STRIPS_AT_ONCE
        yield slice(first, end), slice(first * COLUMNS, end * COLUMNS)


def _whole_strips(q: NDArray[Byte], d: NDArray[np.float16], zero: int) -> tuple[NDArray[Byte], NDArray[np.float16]]:
    """Weights and scales with zero weights beyond the last output."""
    more = ((0, -len(q) % COLUMNS), (0, 0))
    return np.pad(q, more, constant_values=zero), np.pad(d, more)
