"""Q4 weights to fp16, by integers: d * (q - 8), rounded to nearest, ties to even (docs/numerics.md, "Decode").

A scale has 11 significant bits and a weight at most 8 in magnitude: their product fits 15 bits, and one rounding of
it is what IEEE multiplication gives. A block of 32 inputs by 32 columns has one scale a column, and is one tile in
fp16.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.exact.arrays import U8, U16, Integer
from estream_lab.kernels.exact.half import IEEE_LARGEST, exponent_of, half_code, significand_of
from estream_lab.kernels.layout import BLOCK_BYTES, STRIP, TILE_BYTES
from estream_lab.kernels.quant import SCALE_LIMIT

_NIBBLE_BYTES = 512
_TILE = TILE_BYTES // 2  # halfwords
_SCALE_LIMIT_CODE = int(np.float16(SCALE_LIMIT).view(np.uint16))


def decode_q4(q: U8, d: NDArray[np.float16]) -> U16:
    """Weights of a Q4_0 quantisation as fp16 codes.

    Args:
        q: (N, K) uint8 in 0..15, K a multiple of 32.
        d: (N, K // 32) float16.

    Returns:
        (N, K) uint16.

    Raises:
        ValueError: shapes that don't fit, or a scale of 8192 or more in magnitude, infinite or NaN.
    """
    rows, depth = q.shape
    if depth % STRIP or d.shape != (rows, depth // STRIP):
        raise ValueError(f"scales of shape {d.shape} do not fit weights of shape {q.shape}")
    scales = np.ascontiguousarray(d).view(np.uint16)
    check_scales(scales)
    out = np.empty((rows, depth), np.uint16)
    _decode_rows(np.ascontiguousarray(q), scales, out)
    return out


def check_scales(scales: NDArray[Any]) -> None:
    """Refuse fp16 codes of scales whose weights would overflow fp16. Raises ValueError."""
    if (scales & 0x7FFF >= _SCALE_LIMIT_CODE).any():
        raise ValueError(f"a scale of {SCALE_LIMIT:g} or more in magnitude: its weights overflow fp16")


@compiled
def weight_code(scale: Integer, q: Integer) -> Integer:
    """d * (q - 8) as a code; `scale` is the code of d, below 8192 in magnitude."""
    weight = int(q) - 8
    negative = int(scale >> 15) ^ int(weight < 0)
    return half_code(negative, significand_of(scale) * abs(weight), exponent_of(scale) - 25, IEEE_LARGEST)


@compiled
def _decode_rows(q: U8, scales: U16, out: U16) -> None:
    for row in range(len(q)):
        for k in range(q.shape[1]):
            out[row, k] = weight_code(np.int64(scales[row, k // STRIP]), np.int64(q[row, k]))


@compiled
def decode_blocks(packed: U8, tiles: U16, begin: int, end: int) -> None:
    """Blocks begin..end of q4-32x32 to as many tiles: block b becomes tile b.

    Args:
        packed: blocks of 576 bytes.
        tiles: halfwords of the tiles.
    """
    codes = np.empty(16, np.uint16)
    for block in range(begin, end):
        first, tile = block * BLOCK_BYTES, block * _TILE
        for j in range(STRIP):
            at = first + _NIBBLE_BYTES + 2 * j
            scale = np.int64(packed[at]) | np.int64(packed[at + 1]) << 8
            codes[8] = scale & 0x8000
            for q in range(8):  # 8 + (8 - q) is the same weight with the other sign
                code = weight_code(scale, q)
                codes[q] = code
                if q > 0:
                    codes[16 - q] = code ^ 0x8000
            for k in range(STRIP):
                byte = np.int64(packed[first + 128 * (k // 8) + 4 * j + k % 4])
                code = codes[byte & 15 if k % 8 < 4 else byte >> 4]
                tiles[tile + k // 2 * 64 + 2 * j + k % 2] = code


def check_blocks(packed: U8) -> None:
    """Refuse blocks of q4-32x32 with a scale that overflows. Raises ValueError."""
    scales = packed.reshape(-1, BLOCK_BYTES)[:, _NIBBLE_BYTES:]
    check_scales(np.ascontiguousarray(scales).view(np.uint16))
