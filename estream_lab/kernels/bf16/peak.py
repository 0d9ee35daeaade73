"""The most bf16 multiply-adds a second that this processor does with registers alone: what the kernels are held to.

Counted are the multiply-adds of the variant's steps (`dot.Dot.add`), which add up in fp32 as the kernels' do. There are
no loads, no decoding, no scales.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from estream_lab.kernels.arrays import F32
from estream_lab.kernels.bf16.dot import DOTS, Dot
from estream_lab.kernels.bf16.variants import variant
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.rate import best_rate
from estream_lab.kernels.host.vector_ir import address, take_share
from estream_lab.kernels.int8.vectors import load, loop, store

CHAINS = 12
"""Sums: enough to hide a step's latency, and with their two operands within 16 registers."""

STEPS = 8
"""Of each sum in a turn of the loop."""

_TURNS = 20_000  # of a share: some milliseconds


def multiply_adds(dot: Dot) -> int:
    """Those of one turn."""
    return CHAINS * STEPS * dot.lanes * (32 // dot.steps)


def emit_turns(builder: ir.IRBuilder, dot: Dot, turns: ir.Value, words: ir.Value) -> None:
    """Emit `turns` >= 1 turns of steps on sums that stay in registers.

    `words` is the address of 2 + CHAINS vectors: two operands, which LLVM doesn't know, and room for the sums, which
    are stored so that they are computed at all.
    """
    size = 4 * dot.lanes
    weights, activation = (load(builder, words, place * size, dot.weights) for place in range(2))
    with builder.goto_entry_block():
        variables = [builder.alloca(dot.sums) for _ in range(CHAINS)]  # which LLVM puts in registers
    for variable in variables:
        builder.store(builder.bitcast(weights, dot.sums), variable)
    with loop(builder, turns):
        sums = [builder.load(variable) for variable in variables]
        for _ in range(STEPS):
            sums = [dot.add(builder, total, weights, activation) for total in sums]
        for variable, total in zip(variables, sums, strict=True):
            builder.store(total, variable)
    for place, variable in enumerate(variables, 2):
        store(builder, builder.load(variable), words, place * size)


_DOT = DOTS[variant().name]


@intrinsic
def _steps(typing_context: Any, turns: Any, words: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        emit_turns(builder, _DOT, *arguments)
        return context.get_dummy_value()

    return types.void(types.intp, types.intp), codegen


@compiled
def _take_turns(turns: int, words: F32, counter: int, shares: int) -> None:
    while take_share(counter) < shares:
        _steps(turns, address(words))


def peak(threads: int, rounds: int = 5) -> float:
    """bf16 multiply-adds a second of `threads` threads together, by this processor's variant: the best of some rounds.

    Args:
        threads: as many run at once, at most `host.thread_limit()`.
        rounds: how often that is timed, some milliseconds each.
    """
    words = np.zeros((threads, (2 + CHAINS) * _DOT.lanes), np.float32)

    def work(counter: int, shares: int, worker: int) -> None:
        _take_turns(_TURNS, words[worker], counter, shares)

    return best_rate(work, threads, _TURNS * multiply_adds(_DOT), rounds)
