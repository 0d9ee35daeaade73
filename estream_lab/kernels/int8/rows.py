"""Rows of quantised weights in strips as float32: an embedding's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, I64, U8
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.threads import run_workers, threads
from estream_lab.kernels.host.vector_ir import COLUMNS, float_of_bits, take_share
from estream_lab.kernels.int8.q8 import WEIGHT_BYTES
from estream_lab.kernels.layout import NIBBLE_BYTES

_IDS = 16  # that are picked as one share
_SMALLEST_NORMAL = np.float32(2.0**-14)


def pick_rows(blocks: U8, ids: NDArray[np.integer], nibbles: bool, out: F32) -> None:
    """out[t] = row ids[t], ``q * d``, which is exact.

    Args:
        blocks: (S, K / 32, block bytes) uint8, in q4-32x32 or q8-32x32.
        ids: (T,) integers, 0 <= ids[t] < 32 S, which isn't checked.
        nibbles: it is q4-32x32.
        out: (T, K) float32.
    """
    wanted = np.ascontiguousarray(ids, np.int64)
    tasks = -(-len(wanted) // _IDS)

    def work(counter: int, shares: int, worker: int) -> None:
        _pick_rows(blocks, wanted, nibbles, out, counter, shares)

    run_workers(work, tasks, threads(), tasks)


@compiled
def _pick_rows(blocks: U8, ids: I64, nibbles: bool, out: F32, counter: int, shares: int) -> None:
    scales = NIBBLE_BYTES if nibbles else WEIGHT_BYTES
    share = take_share(counter)
    while share < shares:
        for t in range(share * _IDS, min(len(ids), (share + 1) * _IDS)):
            strip, column = ids[t] // COLUMNS, ids[t] % COLUMNS
            for block in range(blocks.shape[1]):
                octets, left = blocks[strip, block], block * COLUMNS
                at = scales + 2 * column
                scale = float_of_half(np.uint32(octets[at] | octets[at + 1] << 8))
                for quad in range(4 if nibbles else 8):
                    for i in range(4):
                        octet = octets[(quad * COLUMNS + column) * 4 + i]
                        if nibbles:  # low: input 8 quad + i; high: 4 inputs further
                            out[t, left + 8 * quad + i] = np.float32(np.int32(octet & 15) - np.int32(8)) * scale
                            out[t, left + 8 * quad + 4 + i] = np.float32(np.int32(octet >> 4) - np.int32(8)) * scale
                        else:
                            out[t, left + 4 * quad + i] = np.float32(np.int8(octet)) * scale
        share = take_share(counter)


@compiled
def float_of_half(bits: np.uint32) -> np.float32:
    """The float32 that equals the fp16 number with these bits (uint32), which is finite.

    Only normal fp32 numbers are touched on the way, so that a process that flushes subnormals gets the same.
    """
    magnitude = (bits & np.uint32(0x7FFF)) << np.uint32(13)
    if magnitude < np.uint32(0x0400 << 13):
        # A subnormal m * 2^-24: (1 + m * 2^-10) * 2^-14 less 2^-14.
        value: np.float32 = float_of_bits(magnitude + np.uint32(113 << 23)) - _SMALLEST_NORMAL
    else:
        value = float_of_bits(magnitude + np.uint32(112 << 23))
    return -value if bits & np.uint32(0x8000) else value
