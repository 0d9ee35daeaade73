"""The most bf16 multiply-adds a second that this processor does with registers alone: what the kernels are held to.

Counted are the multiply-adds of the variant's steps (`dot.Dot.add`), which add up in fp32 as the kernels' do.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from llvmlite import ir

from estream_lab.kernels.bf16.dot import DOTS, Dot
from estream_lab.kernels.bf16.variants import variant
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.registers import CHAINS, STEPS, turn_rate, turns_kernel


def multiply_adds(dot: Dot) -> int:
    """Those of one turn."""
    return CHAINS * STEPS * dot.lanes * (32 // dot.steps)


def turn(dot: Dot, builder: ir.IRBuilder, sums: list[ir.Value], a: ir.Value, b: ir.Value) -> list[ir.Value]:
    """Emit one turn: see `registers.Turn`. `a` is the weights of every step, `b` the activations."""
    weights, activation = (builder.bitcast(operand, dot.weights) for operand in (a, b))
    for _ in range(STEPS):
        sums = [dot.add(builder, total, weights, activation) for total in sums]
    return sums


_DOT = DOTS[variant().name]
_kernel = turns_kernel(partial(turn, _DOT), _DOT.sums)


@compiled
def _turns(turns: int, words: int) -> None:
    _kernel(turns, words)


def peak(threads: int, rounds: int = 5) -> float:
    """bf16 multiply-adds a second of `threads` threads together, by this processor's variant: see `turn_rate`."""
    words = np.zeros((threads, (2 + CHAINS) * _DOT.lanes), np.float32)
    return turn_rate(_turns, words, multiply_adds(_DOT), rounds)
