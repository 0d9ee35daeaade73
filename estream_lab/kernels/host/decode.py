"""One strip of packed weights to fp32, as the host kernels use it: (K, 32)."""

from __future__ import annotations

import numpy as np

from estream_lab.kernels.arrays import F32, U32
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.vector_ir import COLUMNS, float_of_bits

BLOCK_WORDS = 144
"""A 576-byte block as 32-bit words: 4 x 32 of nibbles, then 16 with two fp16 scales each."""

_SCALES = 128
_SMALLEST_NORMAL = np.float32(2.0**-14)


@compiled
def float_of_half(bits: np.uint32) -> np.float32:
    """The float32 that equals the fp16 number with these bits (uint32), which is finite.

    Only normal fp32 numbers are touched on the way, so that a process that flushes subnormals gets the same.
    """
    magnitude = (bits & np.uint32(0x7FFF)) << np.uint32(13)
    if magnitude < np.uint32(0x0400 << 13):
        # A subnormal m * 2^-24: (1 + m * 2^-10) * 2^-14 less 2^-14.
        value = float_of_bits(magnitude + np.uint32(113 << 23)) - _SMALLEST_NORMAL
    else:
        value = float_of_bits(magnitude + np.uint32(112 << 23))
    return -value if bits & np.uint32(0x8000) else value


@compiled
def decode_strip(words: U32, base: int, strip: int, depth: int, quantised: bool, panel: F32, scales: F32) -> None:
    """panel[: depth * 32] = strip `strip` of the projection at word `base`, as (depth, 32) floats.

    `scales` is room for 32 floats. Weights are those of `dequantise_q4_0`, bit for bit.
    """
    if not quantised:
        first = base + strip * depth * COLUMNS
        for i in range(depth * COLUMNS):
            panel[i] = float_of_bits(words[first + i])
        return
    blocks = depth // COLUMNS
    for block in range(blocks):
        first = base + (strip * blocks + block) * BLOCK_WORDS
        for j in range(0, COLUMNS, 2):
            pair = words[first + _SCALES + j // 2]
            scales[j] = float_of_half(np.uint32(pair & np.uint32(0xFFFF)))
            scales[j + 1] = float_of_half(np.uint32(pair >> np.uint32(16)))
        for eight in range(4):  # inputs 8 * eight .. 8 * eight + 7: byte i of word j has input i (low) and i + 4 (high)
            for i in range(8):
                shift = np.uint32(8 * (i % 4) + i // 4 * 4)
                row = (block * COLUMNS + eight * 8 + i) * COLUMNS
                for j in range(COLUMNS):
                    q = np.int32((words[first + eight * COLUMNS + j] >> shift) & np.uint32(15))
                    panel[row + j] = np.float32(q - np.int32(8)) * scales[j]
