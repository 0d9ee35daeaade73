"""What this processor does at most, measured: fp32 multiply-adds with registers alone, and bytes read from memory."""

from __future__ import annotations

import numpy as np
from llvmlite import ir

from estream_lab.kernels.arrays import I64
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.rate import best_rate
from estream_lab.kernels.host.registers import CHAINS, STEPS, turn_rate, turns_kernel
from estream_lab.kernels.host.vector_ir import LANES, fused, take_share
from estream_lab.kernels.vectors import F32, vector

MULTIPLY_ADDS = CHAINS * STEPS * LANES
"""Those of one turn."""

READ_BYTES = 512 << 20
"""Several times what the caches of a processor hold."""

_PIECE = 1 << 17  # words of a share: 1 MiB


def turn(builder: ir.IRBuilder, sums: list[ir.Value], a: ir.Value, b: ir.Value) -> list[ir.Value]:
    """Emit one turn of multiply-adds: see `registers.Turn`. `a` and `b` are the two factors of every step."""
    for _ in range(STEPS):
        sums = [fused(builder, a, b, total) for total in sums]
    return sums


_kernel = turns_kernel(turn, vector(F32, LANES))


@compiled
def _turns(turns: int, words: int) -> None:
    _kernel(turns, words)


@compiled
def _sum_pieces(words: I64, sums: I64, worker: int, counter: int, shares: int) -> None:
    """Add up the pieces that are taken, each _PIECE words, as four rows side by side."""
    total = np.int64(0)
    while True:
        share = take_share(counter)
        if share >= shares:
            break
        piece = words[share * _PIECE : (share + 1) * _PIECE]
        row = np.uint64(_PIECE // 4)  # unsigned: LLVM makes vectors of it, for no index counts from the end
        for i in range(row):
            total += piece[i] + piece[i + row] + piece[i + 2 * row] + piece[i + 3 * row]
    sums[worker] = total


def fma_peak(threads: int, rounds: int = 5) -> float:
    """fp32 multiply-adds a second of `threads` threads together: see `turn_rate`."""
    numbers = np.zeros((threads, (2 + CHAINS) * LANES), np.float32)
    numbers[:, :LANES] = 1  # times 0: a number that is slow to compute with never comes up
    return turn_rate(_turns, numbers, MULTIPLY_ADDS, rounds)


def read_bandwidth(threads: int, size: int = READ_BYTES, rounds: int = 3) -> float:
    """Bytes a second that `threads` threads together read from memory in order: the best of some rounds.

    Args:
        threads: as many run at once, at most `thread_limit()`.
        size: bytes that are read, a multiple of 1 MiB.
        rounds: how often they are.
    """
    words, sums = np.ones(size // 8, np.int64), np.zeros(threads, np.int64)  # NumPy asks for huge pages, as the arena

    def work(counter: int, shares: int, worker: int) -> None:
        _sum_pieces(words, sums, worker, counter, shares)

    return best_rate(work, threads, 8 * _PIECE, rounds, shares=len(words) // _PIECE)
