"""The matrix micro-kernel in LLVM IR: register blocks of some rows x 32 fp32 sums, one fused multiply-add a weight.

Each sum is the same chain of roundings, whatever the number of rows, the vector width or the machine. Weights are fp32,
or bf16 that are widened in registers, where they are the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from estream_lab.kernels.host import vector_ir
from estream_lab.kernels.host.vector_ir import COLUMNS, F32, I32, I64, after, fused, load, number, pointer, splat

Vectors = Iterator[tuple[int, ir.Value]]
"""A row of a strip, a vector at a time: its number, of columns in ascending order, and its fp32 weights."""


def _fp32(builder: ir.IRBuilder, row: ir.Value) -> Vectors:
    """32 columns in order."""
    kind = ir.VectorType(F32, vector_ir.LANES)
    for group in range(COLUMNS // kind.count):
        yield group, load(builder, row, group * kind.count, kind)


def _bf16(builder: ir.IRBuilder, row: ir.Value) -> Vectors:
    """16 words: word i has column i in its lower half and column 16 + i in its upper one.

    A bfloat16 number is the upper half of the float32 that equals it. So one column of a word is shifted and the other
    masked: no lane moves, which costs less than the unpacking of 32 neighbours.
    """
    lanes = vector_ir.LANES
    kind, floats = ir.VectorType(I32, lanes), ir.VectorType(F32, lanes)
    half, upper = (ir.Constant(kind, [value] * lanes) for value in (16, -0x10000))
    groups = COLUMNS // 2 // lanes
    for group in range(groups):
        words = load(builder, row, group * lanes, kind)
        yield group, builder.bitcast(builder.shl(words, half), floats)
        yield groups + group, builder.bitcast(builder.and_(words, upper), floats)


_FORMATS: dict[str, tuple[Callable[[ir.IRBuilder, ir.Value], Vectors], int]] = {
    "fp32": (_fp32, COLUMNS),
    "bf16": (_bf16, COLUMNS // 2),
}
"""Of each kind of weights, how a row is taken from memory, and the 32-bit words that it has."""


def rows_kernel(weights: Literal["fp32", "bf16"]) -> Any:
    """An intrinsic that adds a product to a tile: ``c[r, :] += sum over k of x[row r, k] * w[k, :]``, k ascending.

    Called as ``kernel(x, index, rows, ldx, w, depth, c, ldc)``. x, w and c are addresses of 32-bit numbers, index one
    of int32 numbers (see `vector_ir.address`); the steps ldx and ldc count numbers:

    - x: row r, 0 <= r < rows, starts ``index[r] * ldx`` after x and has `depth` elements;
    - w: (depth, 32) weights, a strip, in float32; or (depth, 16) words, see `_bf16`;
    - c: row r starts ``r * ldc`` after c and has 32 elements.

    Nothing is bounds-checked. The function that calls it is never inlined: copies of the loop cost seconds to compile.
    """

    @intrinsic
    def kernel(
        typing_context: Any, x: Any, index: Any, rows: Any, ldx: Any, w: Any, depth: Any, c: Any, ldc: Any
    ) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.function.attributes.add("noinline")
            _emit_rows(builder, weights, *arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), codegen

    return kernel


def _emit_rows(
    builder: ir.IRBuilder,
    weights: str,
    x: ir.Value,
    index: ir.Value,
    rows: ir.Value,
    ldx: ir.Value,
    w: ir.Value,
    depth: ir.Value,
    c: ir.Value,
    ldc: ir.Value,
) -> None:
    """As many rows as fit in the largest register blocks, then the rest in pairs, then the last."""
    first: ir.Value = number(0)
    for size in (vector_ir.MAX_ROWS, 2, 1):
        blocks = builder.sdiv(builder.sub(rows, first), number(size))
        with cgutils.for_range(builder, blocks) as block:
            r = builder.add(first, builder.mul(block.index, number(size)))
            tile = after(builder, c, builder.mul(r, ldc))
            _emit_tile(builder, size, weights, x, after(builder, index, r), ldx, w, depth, tile, ldc)
        first = builder.add(first, builder.mul(blocks, number(size)))


def _emit_tile(
    builder: ir.IRBuilder,
    rows: int,
    weights: str,
    x: ir.Value,
    index: ir.Value,
    ldx: ir.Value,
    w: ir.Value,
    depth: ir.Value,
    c: ir.Value,
    ldc: ir.Value,
) -> None:
    lanes, (take, words) = vector_ir.LANES, _FORMATS[weights]
    vector = ir.VectorType(F32, lanes)
    groups = range(COLUMNS // lanes)
    x_rows, c_rows = [], []
    for r in range(rows):
        row = builder.sext(builder.load(pointer(builder, index, number(r), I32), align=4), I64)
        x_rows.append(after(builder, x, builder.mul(row, ldx)))
        c_rows.append(after(builder, c, builder.mul(ldc, number(r))))
    start = [[load(builder, c_rows[r], g * lanes, vector) for g in groups] for r in range(rows)]
    before = builder.block
    head, body, done = (builder.append_basic_block(name) for name in ("head", "body", "done"))
    builder.branch(head)

    builder.position_at_end(head)
    k, w_row = builder.phi(I64), builder.phi(I64)
    sums = [[builder.phi(vector) for _ in groups] for _ in range(rows)]
    builder.cbranch(builder.icmp_signed("<", k, depth), body, done)

    builder.position_at_end(body)
    # Inputs first, then one vector of weights at a time: 3 + 1 + 12 values fill AVX2's 16 registers exactly.
    values = [splat(builder, builder.load(pointer(builder, x_rows[r], k, F32), align=4)) for r in range(rows)]
    added = {}
    for g, vector_of_weights in take(builder, w_row):
        for r in range(rows):
            added[r, g] = fused(builder, values[r], vector_of_weights, sums[r][g])
    next_k, next_row = builder.add(k, number(1)), after(builder, w_row, number(words))
    builder.branch(head)

    for phi, first, following in ((k, number(0), next_k), (w_row, w, next_row)):
        phi.add_incoming(first, before)
        phi.add_incoming(following, body)
    for r in range(rows):
        for g in groups:
            sums[r][g].add_incoming(start[r][g], before)
            sums[r][g].add_incoming(added[r, g], body)

    builder.position_at_end(done)
    for r in range(rows):
        for g in groups:
            builder.store(sums[r][g], pointer(builder, c_rows[r], number(g * lanes), vector), align=4)
