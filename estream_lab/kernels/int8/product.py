"""The micro-kernel: a few rows of int8 activations times one strip of 32 columns of weights, added to fp32 sums.

For each block of 32 inputs, ascending: an exact integer product, to fp32, times the product of the weights' scale and
the activations' scale, added to the sum by a fused multiply-add. No variant, number of rows or cut of the inputs
changes that order, so all give the same bits.

Weights come *packed*, as blocks of `kernels.layout`, or as a *panel* (see `weights`) whose nibbles were taken apart
before: that pays for itself from a few register blocks on. With the operations of `dot_q8` they come as *octets*.

The machine's limits, for AVX2 and one row x 32 columns x 32 inputs (1,024 multiply-adds): 32 vpmaddubsw, 32 vpaddw and
4 each of vpmaddwd, vcvtdq2ps, vmulps (of the scales) and vfmadd: 80 instructions, of which 36 need one of two
multipliers. A core with four vector pipes could end them in 20 cycles; its loads, two a cycle, fit beside: 8 quads a
register block and row, 32 / rows weight vectors, and 8 for sums and scales.
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from estream_lab.kernels.host.vector_ir import COLUMNS
from estream_lab.kernels.int8.dot import Dot
from estream_lab.kernels.int8.records import CORRECTION, RECORD_BYTES, SCALE
from estream_lab.kernels.int8.weights import QUADS, Source
from estream_lab.kernels.packed.product import RegisterBlock
from estream_lab.kernels.vectors import (
    F32,
    I32,
    I64,
    after,
    broadcast,
    fma,
    load,
    loop,
    vector,
)


def register_block(dot: Dot, source: type[Source]) -> RegisterBlock:
    """What `packed.product` makes a micro-kernel of, for 1..dot.rows rows and weights as `source` reads them."""
    return partial(_add_blocks, dot, source)


def _add_blocks(
    dot: Dot, source: type[Source], builder: ir.IRBuilder, rows: int, x: ir.Value, w: ir.Value, blocks: ir.Value,
    c: ir.Value,
) -> None:  # fmt: skip
    """All blocks of inputs for a fixed number of rows."""
    sums = _Sums(builder, dot, rows, c)
    steps = ((x, ir.Constant(I64, rows * RECORD_BYTES)), (w, ir.Constant(I64, source.bytes)))
    with loop(builder, blocks, *steps) as (x_block, w_block):
        source.ahead(builder, w_block)
        if dot.width == COLUMNS:
            _add_block(builder, dot, x_block, source(builder, dot, w_block, ir.Constant(I64, 0)), sums, rows)
        else:
            parts, part = ir.Constant(I64, COLUMNS // dot.width), (ir.Constant(I64, 0), ir.Constant(I64, dot.width))
            with loop(builder, parts, part) as (column,):
                weights = source(builder, dot, w_block, column)
                _add_block(builder, dot, x_block, weights, sums.part(column), rows)
    sums.put_back()


def _add_block(builder: ir.IRBuilder, dot: Dot, x: ir.Value, weights: Source, sums: _Sums, rows: int) -> None:
    """One register block: all rows times `dot.vectors` vectors of columns, of one block of inputs."""

    def of_row(r: int, offset: int, kind: ir.Type) -> ir.Value:
        return broadcast(builder, load(builder, x, r * RECORD_BYTES + offset, kind), dot.lanes)

    vectors = range(dot.vectors)
    products = {}
    for r in range(rows):
        correction = of_row(r, CORRECTION, I32)
        for v in vectors:
            products[r, v] = dot.start(builder, correction)
    for quad in range(QUADS):
        w = [weights.quad(quad, v) for v in vectors]
        for r in range(rows):
            activations = of_row(r, 4 * quad, I32)
            for v in vectors:
                products[r, v] = dot.step(builder, products[r, v], w[v], activations)
    scales = [weights.scales(v) for v in vectors]
    for r in range(rows):
        row_scale = of_row(r, SCALE, F32)
        for v in vectors:
            exact = builder.sitofp(dot.finish(builder, products[r, v]), row_scale.type)
            place = sums.place(r, v)
            before = builder.load(place, align=4)
            builder.store(fma(builder, exact, builder.fmul(scales[v], row_scale), before), place, align=4)


class _Sums:
    """Where fp32 sums are: in memory, which is cached, or in variables that LLVM puts in registers."""

    def __init__(self, builder: ir.IRBuilder, dot: Dot, rows: int, c: ir.Value) -> None:
        self._builder, self._dot, self._c, self._kind = builder, dot, c, vector(F32, dot.lanes)
        self._own: dict[tuple[int, int], ir.Value] = {}
        if dot.width == COLUMNS:
            with builder.goto_entry_block():  # elsewhere it would be memory, and more of it on every turn of a loop
                self._own = {(r, v): builder.alloca(self._kind) for r in range(rows) for v in range(dot.vectors)}
        for at, variable in self._own.items():
            builder.store(builder.load(self._in_memory(*at), align=4), variable)

    def _in_memory(self, r: int, v: int) -> ir.Value:
        place = after(self._builder, self._c, 4 * (r * COLUMNS + v * self._dot.lanes))
        return self._builder.inttoptr(place, self._kind.as_pointer())

    def part(self, column: ir.Value) -> _Sums:
        """Those in memory of the columns from `column` on."""
        return _Sums(
            self._builder, self._dot, 0, self._builder.add(self._c, self._builder.shl(column, ir.Constant(I64, 2)))
        )

    def place(self, r: int, v: int) -> ir.Value:
        """The pointer to row r's sums of the v-th vector of columns."""
        return self._own[r, v] if self._own else self._in_memory(r, v)

    def put_back(self) -> None:
        """From variables to memory."""
        for at, variable in self._own.items():
            self._builder.store(self._builder.load(variable), self._in_memory(*at), align=4)
