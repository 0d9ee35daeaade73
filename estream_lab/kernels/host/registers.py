"""How often a second this processor takes a step with registers alone: the scaffold of every peak.

A turn takes some steps of each of `CHAINS` sums. There are no loads, no decoding, no scales.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numpy.typing import NDArray

from estream_lab.kernels.apart import address_of, call_at, emitted
from estream_lab.kernels.arrays import F32
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.rate import best_rate
from estream_lab.kernels.host.vector_ir import address, take_share
from estream_lab.kernels.vectors import load, loop, store

CHAINS = 12
"""Sums: enough to hide a step's latency, and with their two operands within 16 registers."""

STEPS = 8
"""Of each sum in a turn of the loop."""

_TURNS = 20_000  # of a share: some milliseconds

Turn = Callable[[ir.IRBuilder, list[ir.Value], ir.Value, ir.Value], list[ir.Value]]
"""``turn(builder, sums, a, b)`` emits the `STEPS` steps of every sum and returns what the sums have become."""


def emit_turns(turn: Turn, kind: ir.VectorType, builder: ir.IRBuilder, turns: ir.Value, words: ir.Value) -> None:
    """Emit `turns` >= 1 turns on sums that stay in registers.

    `words` is the address of 2 + CHAINS vectors of 32-bit lanes, loaded as `kind`: two operands, which LLVM doesn't
    know, and room for the sums, which are stored so that they are computed at all. They start from the first operand.
    """
    size = 4 * kind.count
    a, b = (load(builder, words, place * size, kind) for place in range(2))
    with builder.goto_entry_block():
        variables = [builder.alloca(kind) for _ in range(CHAINS)]  # which LLVM puts in registers
    for variable in variables:
        builder.store(a, variable)
    with loop(builder, turns):
        sums = turn(builder, [builder.load(variable) for variable in variables], a, b)
        for variable, total in zip(variables, sums, strict=True):
            builder.store(total, variable)
    for place, variable in enumerate(variables, 2):
        store(builder, builder.load(variable), words, place * size)


def turns_kernel(turn: Turn, kind: ir.VectorType) -> Any:
    """An intrinsic ``kernel(turns, words)``: see `emit_turns`."""
    return emitted(partial(emit_turns, turn, kind))


@compiled
def take_turns(kernel: int, turns: int, words: F32, counter: int, shares: int) -> None:
    """Take shares of `turns` turns each, of the kernel at an address; words is the array behind its second argument."""
    while take_share(counter) < shares:
        call_at(kernel, turns, address(words))


def turn_rate(kernel: Callable[[int, int], None], words: NDArray[Any], each: float, rounds: int) -> float:
    """What is counted, a second, of the threads together: the best of some rounds.

    Args:
        kernel: compiled, calls a `turns_kernel`.
        words: (threads, (2 + CHAINS) * lanes) of 32 bits, for each thread; as many run at once, at most
            `host.thread_limit()`.
        each: how much a turn counts.
        rounds: how often that is timed, some milliseconds each.
    """
    place, numbers = address_of(kernel), words.view("float32")

    def work(counter: int, shares: int, worker: int) -> None:
        take_turns(place, _TURNS, numbers[worker], counter, shares)

    return best_rate(work, len(words), _TURNS * each, rounds)
