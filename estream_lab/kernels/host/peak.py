"""What this processor does at most, measured: fp32 multiply-adds with registers alone, and bytes read from memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from estream_lab.kernels.arrays import F32, I64
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.rate import best_rate
from estream_lab.kernels.host.vector_ir import LANES, address, fused, take_share

CHAINS = 12
"""Sums: enough to hide a multiply-add's latency, and with their two operands within 16 registers."""

STEPS = 8
"""Multiply-adds of each sum in a turn of the loop."""

MULTIPLY_ADDS = CHAINS * STEPS * LANES
"""Those of one turn."""

READ_BYTES = 512 << 20
"""Several times what the caches of a processor hold."""

_TURNS = 20_000  # of a share: some milliseconds
_PIECE = 1 << 17  # words of a share: 1 MiB


def emit_turns(builder: ir.IRBuilder, turns: ir.Value, numbers: ir.Value) -> None:
    """Emit `turns` >= 1 turns of multiply-adds on sums that stay in registers.

    `numbers` is the address of 2 + CHAINS vectors of fp32: the two factors of every step, which LLVM doesn't know, and
    room for the sums, which are stored so that they are computed at all. The first is what sums start from.
    """
    kind, word = ir.VectorType(ir.FloatType(), LANES), ir.IntType(64)

    def place(number: int) -> ir.Value:
        return builder.inttoptr(builder.add(numbers, word(4 * LANES * number)), kind.as_pointer())

    x, w = (builder.load(place(number), align=4) for number in range(2))
    before, body, done = builder.block, builder.append_basic_block("turn"), builder.append_basic_block("done")
    builder.branch(body)
    builder.position_at_end(body)
    turn, starts = builder.phi(word), [builder.phi(kind) for _ in range(CHAINS)]
    sums = list(starts)
    for _ in range(STEPS):
        sums = [fused(builder, x, w, value) for value in sums]
    following = builder.add(turn, word(1))
    builder.cbranch(builder.icmp_signed("<", following, turns), body, done)
    for phi, first, last in ((turn, word(0), following), *((p, x, s) for p, s in zip(starts, sums, strict=True))):
        phi.add_incoming(first, before)
        phi.add_incoming(last, body)
    builder.position_at_end(done)
    for number, value in enumerate(sums):
        builder.store(value, place(2 + number), align=4)


@intrinsic
def _multiply_adds(typing_context: Any, turns: Any, numbers: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit_turns(builder, *arguments)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


@compiled
def _take_turns(turns: int, numbers: F32, counter: int, shares: int) -> None:
    while take_share(counter) < shares:
        _multiply_adds(turns, address(numbers))


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
    """fp32 multiply-adds a second of `threads` threads together: the best of some rounds.

    Args:
        threads: as many run at once, at most `thread_limit()`.
        rounds: how often that is timed, some milliseconds each.
    """
    numbers = np.zeros((threads, (2 + CHAINS) * LANES), np.float32)
    numbers[:, :LANES] = 1  # times 0: a number that is slow to compute with never comes up

    def work(counter: int, shares: int, worker: int) -> None:
        _take_turns(_TURNS, numbers[worker], counter, shares)

    return best_rate(work, threads, _TURNS * MULTIPLY_ADDS, rounds)


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
