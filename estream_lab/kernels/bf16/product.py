"""The micro-kernel: a few rows of bf16 activations times one strip of 32 columns of weights, added to fp32 sums.

For each block of 32 inputs, ascending: a chain of products (`dot.CHAIN`), times the weights' scale, added to the sum by
a fused multiply-add. No variant, number of rows or cut of the inputs changes that order, so all give the same bits.

Weights come *packed*, as blocks of `kernels.layout`, or as a *panel* (see `weights`) whose nibbles were taken apart
before: that pays for itself from a few register blocks on.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from estream_lab.kernels.bf16.dot import Dot
from estream_lab.kernels.bf16.weights import Source
from estream_lab.kernels.host.vector_ir import COLUMNS
from estream_lab.kernels.int8.vectors import I64, constant, fma, load, loop, store


def product_kernel(dot: Dot, source: type[Source], least: int = 1) -> Any:
    """An intrinsic that adds products to sums: ``c[r, :] += x[r, :] @ w`` for 0 <= r < rows, inputs ascending.

    Called as ``kernel(rows, x, w, blocks, c)`` with addresses and numbers:

    - rows: `least` .. dot.rows, a register block; for other numbers nothing is done;
    - x: its records of `blocks` >= 1 blocks of inputs, one after the other;
    - w: as many blocks of a strip, as `source` reads them;
    - c: (rows, 32) float32.

    Nothing is bounds-checked. Use it in one function: copies of the loops cost seconds to compile.
    """

    @intrinsic
    def kernel(typing_context: Any, rows: Any, x: Any, w: Any, blocks: Any, c: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            emit_product(builder, dot, source, least, *arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 5), codegen

    return kernel


def emit_product(
    builder: ir.IRBuilder, dot: Dot, source: type[Source], least: int, rows: ir.Value, x: ir.Value, w: ir.Value,
    blocks: ir.Value, c: ir.Value,
) -> None:  # fmt: skip
    """Emit a loop for each number of rows: see `product_kernel`."""
    done = builder.append_basic_block("added")
    choice = builder.switch(rows, done)
    for fixed in range(least, dot.rows + 1):
        case = builder.append_basic_block(f"rows{fixed}")
        choice.add_case(ir.Constant(I64, fixed), case)
        builder.position_at_end(case)
        _add_blocks(builder, dot, source, fixed, x, w, blocks, c)
        builder.branch(done)
    builder.position_at_end(done)


def _add_blocks(
    builder: ir.IRBuilder, dot: Dot, source: type[Source], rows: int, x: ir.Value, w: ir.Value, blocks: ir.Value,
    c: ir.Value,
) -> None:  # fmt: skip
    """All blocks of inputs for a fixed number of rows."""
    steps = ((x, ir.Constant(I64, rows * dot.record_bytes)), (w, ir.Constant(I64, source.block_bytes(dot))))
    with loop(builder, blocks, *steps) as (x_block, w_block):
        source.ahead(builder, w_block)
        parts, zero = ir.Constant(I64, COLUMNS // dot.width), ir.Constant(I64, 0)
        with loop(builder, parts, (zero, ir.Constant(I64, dot.width))) as (column,):
            weights = source(builder, dot, w_block, column)
            _add_block(builder, dot, x_block, weights, builder.add(c, builder.shl(column, ir.Constant(I64, 2))), rows)


def _add_block(builder: ir.IRBuilder, dot: Dot, x: ir.Value, weights: Source, c: ir.Value, rows: int) -> None:
    """One register block: all rows times `dot.vectors` vectors of columns, of one block of inputs."""
    vectors = range(dot.vectors)
    products = {(r, v): constant(dot.sums, 0.0) for r in range(rows) for v in vectors}
    for step in range(dot.steps):
        w = [weights.step(step, v) for v in vectors]
        for r in range(rows):
            activation = dot.activation(builder, x, r * dot.record_bytes + 4 * step)
            for v in vectors:
                products[r, v] = dot.add(builder, products[r, v], w[v], activation)
    for v in vectors:
        scales = weights.scales(v)
        for r in range(rows):
            place = 4 * (r * COLUMNS + v * dot.lanes)
            total = fma(builder, products[r, v], scales, load(builder, c, place, dot.sums))
            store(builder, total, c, place)
