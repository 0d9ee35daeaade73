"""Rows of quantised weights in strips as float32: an embedding's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, I64, U8
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.decode import float_of_half
from estream_lab.kernels.host.threads import run_workers, threads
from estream_lab.kernels.host.vector_ir import COLUMNS, take_share
from estream_lab.kernels.int8.q8 import WEIGHT_BYTES
from estream_lab.kernels.layout import NIBBLE_BYTES

_IDS = 16  # that are picked as one share


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
