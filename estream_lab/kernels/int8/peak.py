"""The most int8 multiply-adds a second that this processor does with registers alone: what the kernels are held to.

Counted are the multiply-adds of the variant's steps (`dot.Dot.step`): for AVX2 32 of each vpmaddubsw. They run with all
that a block needs whatever the weights and activations are: for AVX2 a vpaddw a vpmaddubsw, and a vpmaddwd and a vpaddd
for every eight, which make int32 of int16. There are no loads, no decoding, no conversion to fp32 and no scales.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from estream_lab.kernels.arrays import I32
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.rate import best_rate
from estream_lab.kernels.host.vector_ir import address, take_share
from estream_lab.kernels.int8.dot import DOTS, Dot
from estream_lab.kernels.int8.features import variant
from estream_lab.kernels.int8.vectors import load, loop, store
from estream_lab.kernels.int8.weights import QUADS

CHAINS = 12
"""Accumulators: enough to hide a step's latency, and with their two operands within 16 registers."""

_TURNS = 20_000  # of a share: some milliseconds


def multiply_adds(dot: Dot) -> int:
    """Those of one turn of `peak_kernel`."""
    return CHAINS * QUADS * dot.lanes * 4


def peak_kernel(dot: Dot) -> Any:
    """An intrinsic ``kernel(turns, words)``: `turns` >= 1 turns of steps; words is room for CHAINS vectors of lanes."""

    @intrinsic
    def kernel(typing_context: Any, turns: Any, words: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            emit_peak(builder, dot, *arguments)
            return context.get_dummy_value()

        return types.void(types.intp, types.intp), codegen

    return kernel


def emit_peak(builder: ir.IRBuilder, dot: Dot, turns: ir.Value, words: ir.Value) -> None:
    """Emit the loop. A step takes its neighbour as weights: with constant ones, LLVM would multiply once for all."""
    size = 4 * dot.lanes
    operand = load(builder, words, 0, dot.words)
    with builder.goto_entry_block():
        variables = [builder.alloca(dot.words) for _ in range(CHAINS)]  # which LLVM puts in registers
    for variable in variables:
        builder.store(operand, variable)
    with loop(builder, turns):
        sums = [builder.bitcast(builder.load(variable), dot.accumulator) for variable in variables]
        for _ in range(QUADS):
            for j in range(CHAINS):
                neighbour = builder.bitcast(sums[(j + 1) % CHAINS], dot.words)
                sums[j] = dot.step(builder, sums[j], neighbour, operand)
        for total, variable in zip(sums, variables, strict=True):
            last = builder.bitcast(total, dot.words)
            builder.store(builder.add(last, dot.finish(builder, total)) if dot.pairs else last, variable)
    for j, variable in enumerate(variables):
        store(builder, builder.load(variable), words, size * j)


_DOT = DOTS[variant().name]
_kernel = peak_kernel(_DOT)


@compiled
def _take_turns(turns: int, words: I32, counter: int, shares: int) -> None:
    while take_share(counter) < shares:
        _kernel(turns, address(words))


def peak(threads: int, rounds: int = 5) -> float:
    """int8 multiply-adds a second of `threads` threads together, by this processor's variant: the best of some rounds.

    Args:
        threads: as many run at once, at most `host.thread_limit()`.
        rounds: how often that is timed, some milliseconds each.
    """
    words = np.ones((threads, CHAINS * _DOT.lanes), np.int32)

    def work(counter: int, shares: int, worker: int) -> None:
        _take_turns(_TURNS, words[worker], counter, shares)

    return best_rate(work, threads, _TURNS * multiply_adds(_DOT), rounds)
