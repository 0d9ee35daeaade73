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
from estream_lab.kernels.exact.arrays import I32, U8, U16, Integer
from estream_lab.kernels.exact.half import IEEE_LARGEST, I, exponent_of, half_code, significand_of
from estream_lab.kernels.exact.integer import shift_left, shift_right
from estream_lab.kernels.layout import BLOCK_BYTES, STRIP, TILE_BYTES
from estream_lab.kernels.quant import SCALE_LIMIT

_NIBBLE_BYTES = 512
_NIBBLE_WORDS, _BLOCK_WORDS, _TILE_WORDS = _NIBBLE_BYTES // 4, BLOCK_BYTES // 4, TILE_BYTES // 4
_SCALE_LIMIT_CODE = int(np.float16(SCALE_LIMIT).view(np.uint16))


def decode_q4(q: U8, d: NDArray[np.float16]) -> U16:
    """Weights of a Q4_0 quantisation as fp16 codes.

    Args:
        q: (N, K) uint8 in 0..15, K a multiple of 32.
        d: (N, K // 32) float16.

    Returns:
        (N, K) uint16.

    Raises:
        ValueError: shapes that don't fit, a q above 15, or a scale of 8192 or more in magnitude, infinite or NaN.
    """
    rows, depth = q.shape
    if (q > 15).any():
        raise ValueError("weights of four bits are 0 to 15")
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
def weight_code(scale: Integer, q: Integer) -> np.int32:
    """d * (q - 8) as a code; `scale` is the code of d, below 8192 in magnitude."""
    d, weight = I(scale), I(I(q) - I(8))
    negative = I(shift_right(d, I(15)) ^ shift_right(weight, I(31))) & I(1)
    magnitude = max(weight, I(-weight))
    return half_code(negative, I(significand_of(d) * magnitude), I(exponent_of(d) - I(25)), IEEE_LARGEST)


@compiled
def _decode_rows(q: U8, scales: U16, out: U16) -> None:
    for row in range(len(q)):
        for k in range(q.shape[1]):
            out[row, k] = weight_code(scales[row, k // STRIP], q[row, k])


@compiled
def decode_blocks(packed: I32, pairs: I32, begin: int, end: int) -> None:
    """Blocks begin..end of q4-32x32 to as many tiles: block b becomes tile b.

    Args:
        packed: words of blocks of 576 bytes: word j of eight inputs has a nibble of column j for each.
        pairs: words of tiles: one has a column's codes of two inputs, the first one lower.
    """
    scales = np.empty(STRIP, np.int32)
    for block in range(begin, end):
        words = packed[block * _BLOCK_WORDS : (block + 1) * _BLOCK_WORDS]
        for j in range(STRIP):
            scales[j] = shift_right(words[_NIBBLE_WORDS + j // 2], I(16 * (j % 2))) & 0xFFFF
        for k in range(0, STRIP, 2):
            nibbles, tile = words[k // 8 * STRIP :], pairs[block * _TILE_WORDS + k // 2 * STRIP :]
            place = I(8 * (k % 4) + k % 8 // 4 * 4)
            for j in range(STRIP):
                first = weight_code(scales[j], I(shift_right(nibbles[j], place) & I(15)))
                second = weight_code(scales[j], I(shift_right(nibbles[j], I(place + I(8))) & I(15)))
                tile[j] = I(first | shift_left(second, I(16)))


def check_blocks(packed: U8) -> None:
    """Refuse blocks of q4-32x32 with a scale that overflows. Raises ValueError."""
    scales = packed.reshape(-1, BLOCK_BYTES)[:, _NIBBLE_BYTES:]
    check_scales(np.ascontiguousarray(scales).view(np.uint16))
