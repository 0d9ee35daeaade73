"""The micro-kernel: a few rows of bf16 activations times one strip of 32 columns of weights, added to fp32 sums.

For each block of 32 inputs, ascending: a chain of products (`dot.CHAIN`), times the weights' scale, added to the sum by
a fused multiply-add. No variant, number of rows or cut of the inputs changes that order, so all give the same bits.

Weights come *packed*, as blocks of `kernels.layout`, or as a *panel* (see `weights`) whose nibbles were taken apart
before: that pays for itself from a few register blocks on.
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from estream_lab.kernels.bf16.dot import Dot
from estream_lab.kernels.bf16.weights import Source
from estream_lab.kernels.host.vector_ir import COLUMNS
from estream_lab.kernels.packed.product import RegisterBlock
from estream_lab.kernels.vectors import I64, constant, fma, load, loop, store


def register_block(dot: Dot, source: type[Source]) -> RegisterBlock:
    """What `packed.product` makes a micro-kernel of, for 1..dot.rows rows and weights as `source` reads them."""
    return partial(_add_blocks, dot, source)


def _add_blocks(
    dot: Dot, source: type[Source], builder: ir.IRBuilder, rows: int, x: ir.Value, w: ir.Value, blocks: ir.Value,
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
