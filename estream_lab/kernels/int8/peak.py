"""The most int8 multiply-adds a second that this processor does with registers alone: what the kernels are held to.

Counted are the multiply-adds of the variant's steps (`dot.Dot.step`): for AVX2 32 of each vpmaddubsw. They run with all
that a block needs whatever the weights and activations are: for AVX2 a vpaddw a vpmaddubsw, and a vpmaddwd and a vpaddd
for every eight, which make int32 of int16. There are no loads, no decoding, no conversion to fp32 and no scales.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from llvmlite import ir

from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.registers import CHAINS, STEPS, turn_rate, turns_kernel
from estream_lab.kernels.int8.dot import DOTS, Dot
from estream_lab.kernels.int8.features import variant


def multiply_adds(dot: Dot) -> int:
    """Those of one turn, which takes as many steps as a block has quads."""
    return CHAINS * STEPS * dot.lanes * 4


def turn(dot: Dot, builder: ir.IRBuilder, sums: list[ir.Value], a: ir.Value, b: ir.Value) -> list[ir.Value]:
    """Emit one turn: see `registers.Turn`. `b` is the activations of every step.

    A step takes its neighbour as weights: with constant ones, LLVM would multiply once for all.
    """
    totals = [builder.bitcast(total, dot.accumulator) for total in sums]
    for _ in range(STEPS):
        for j in range(CHAINS):
            neighbour = builder.bitcast(totals[(j + 1) % CHAINS], dot.words)
            totals[j] = dot.step(builder, totals[j], neighbour, b)
    last = [builder.bitcast(total, dot.words) for total in totals]
    if not dot.pairs:
        return last
    return [builder.add(word, dot.finish(builder, total)) for word, total in zip(last, totals, strict=True)]


_DOT = DOTS[variant().name]
_kernel = turns_kernel(partial(turn, _DOT), _DOT.words)


@compiled
def _turns(turns: int, words: int) -> None:
    _kernel(turns, words)


def peak(threads: int, rounds: int = 5) -> float:
    """int8 multiply-adds a second of `threads` threads together, by this processor's variant: see `turn_rate`."""
    words = np.ones((threads, (2 + CHAINS) * _DOT.lanes), np.int32)
    return turn_rate(_turns, words, multiply_adds(_DOT), rounds)
