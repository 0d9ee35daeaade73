"""Dot products of a 32-block: nibbles 0..15 of a vector of columns times int8 quads of one row, exact in integers.

Weights are ``(q - 8) * scale`` with nibbles q, so a block's product with activations x is ``sum q x - 8 sum x``. The
second part doesn't depend on the column: an activation record brings it along, and products start from it.

Each variant has four operations. A *word* is 32 bits: four bytes of weights of one column, or four activations of one
row (a quad), in every lane of a vector. A block is eight quads.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from estream_lab.kernels.vectors import F32, I8, I16, I32, call, constant, vector


@dataclass(frozen=True)
class Dot:
    """A variant's operations and the register block that suits it.

    Attributes:
        lanes: columns of a vector.
        rows: of the largest register block.
        vectors: column vectors of a register block. If they are a whole strip, its fp32 sums are in registers too.
        pairs: products of a block are kept as two int16 halves, which start from two corrections.
        native_half: the processor converts fp16 to fp32.
    """

    lanes: int
    rows: int
    vectors: int
    pairs: bool = False
    native_half: bool = True

    @property
    def width(self) -> int:
        """Columns of a register block."""
        return self.lanes * self.vectors

    @property
    def words(self) -> ir.VectorType:
        """The type of a vector of words."""
        return vector(I32, self.lanes)

    @property
    def accumulator(self) -> ir.VectorType:
        """The type of what `step` adds to."""
        return vector(I16, 2 * self.lanes) if self.pairs else self.words

    def weights(self, builder: ir.IRBuilder, nibbles: ir.Value) -> ir.Value:
        """What `step` takes for words of nibbles: done once, whatever the number of rows."""
        return nibbles

    def start(self, builder: ir.IRBuilder, correction: ir.Value) -> ir.Value:
        """An accumulator that starts from a record's correction, which is in every lane."""
        return correction

    def step(self, builder: ir.IRBuilder, sums: ir.Value, weights: ir.Value, quads: ir.Value) -> ir.Value:
        """Add the products of one quad."""
        raise NotImplementedError

    def finish(self, builder: ir.IRBuilder, sums: ir.Value) -> ir.Value:
        """An accumulator as one int32 a column."""
        return sums


class Vpdpbusd(Dot):
    """VNNI: four products of unsigned and signed bytes and their sum are added to an int32, in one instruction."""

    def step(self, builder: ir.IRBuilder, sums: ir.Value, weights: ir.Value, quads: ir.Value) -> ir.Value:
        """See `Dot`."""
        octets = vector(I8, 4 * self.lanes)
        name = f"llvm.x86.avx512.vpdpbusd.{32 * self.lanes}"
        return call(builder, name, self.words, sums, builder.bitcast(weights, octets), builder.bitcast(quads, octets))


class Sdot(Dot):
    """NEON: four products of signed bytes. With weights q - 8 nothing is left to correct."""

    def weights(self, builder: ir.IRBuilder, nibbles: ir.Value) -> ir.Value:
        """See `Dot`."""
        octets = vector(I8, 4 * self.lanes)
        return builder.bitcast(builder.sub(builder.bitcast(nibbles, octets), constant(octets, 8)), self.words)

    def start(self, builder: ir.IRBuilder, correction: ir.Value) -> ir.Value:
        """See `Dot`."""
        return constant(self.words, 0)

    def step(self, builder: ir.IRBuilder, sums: ir.Value, weights: ir.Value, quads: ir.Value) -> ir.Value:
        """See `Dot`."""
        octets = vector(I8, 4 * self.lanes)
        arguments = (sums, builder.bitcast(weights, octets), builder.bitcast(quads, octets))
        return call(builder, f"llvm.aarch64.neon.sdot.v{self.lanes}i32.v{4 * self.lanes}i8", self.words, *arguments)


class _Pairs(Dot):
    """Two int16 sums a column: of the quads' first two products, and of the last two.

    They never leave int16: a whole block puts 16 products into one, and with the correction in it the sum is that of
    16 products (q - 8) x, at most 16 * 8 * 127 = 16,256; on the way it is 16 terms that are (q - 8) x or -8 x, no more.
    (Without the correction it would be 16 * 15 * 127 = 30,480 < 32,767.)
    """

    def start(self, builder: ir.IRBuilder, correction: ir.Value) -> ir.Value:
        """See `Dot`."""
        return builder.bitcast(correction, self.accumulator)


class Vpmaddubsw(_Pairs):
    """AVX2: two products of unsigned and signed bytes are added to an int16, at most 2 * 15 * 127: no saturation."""

    def step(self, builder: ir.IRBuilder, sums: ir.Value, weights: ir.Value, quads: ir.Value) -> ir.Value:
        """See `Dot`."""
        octets, floats = vector(I8, 4 * self.lanes), vector(F32, self.lanes)
        arguments = (builder.bitcast(weights, octets), builder.bitcast(quads, octets))
        total = builder.add(sums, call(builder, "llvm.x86.avx2.pmadd.ub.sw", self.accumulator, *arguments))
        # LLVM would shorten the chain of sums by adding products to each other first, which takes registers that
        # aren't there. It doesn't look through an arithmetic fence, which is no instruction.
        fenced = call(builder, f"llvm.arithmetic.fence.v{self.lanes}f32", floats, builder.bitcast(total, floats))
        return builder.bitcast(fenced, self.accumulator)

    def finish(self, builder: ir.IRBuilder, sums: ir.Value) -> ir.Value:
        """See `Dot`."""
        return call(builder, "llvm.x86.avx2.pmadd.wd", self.words, sums, constant(self.accumulator, 1))


class Plain(_Pairs):
    """No special instruction: bytes at even and at odd places are taken apart and multiplied as int16."""

    def step(self, builder: ir.IRBuilder, sums: ir.Value, weights: ir.Value, quads: ir.Value) -> ir.Value:
        """See `Dot`."""
        eight = constant(self.accumulator, 8)
        w, x = builder.bitcast(weights, self.accumulator), builder.bitcast(quads, self.accumulator)
        even = builder.mul(
            builder.and_(w, constant(self.accumulator, 0xFF)), builder.ashr(builder.shl(x, eight), eight)
        )
        odd = builder.mul(builder.lshr(w, eight), builder.ashr(x, eight))
        return builder.add(sums, builder.add(even, odd))

    def finish(self, builder: ir.IRBuilder, sums: ir.Value) -> ir.Value:
        """See `Dot`."""
        sixteen, words = constant(self.words, 16), builder.bitcast(sums, self.words)
        return builder.add(builder.ashr(builder.shl(words, sixteen), sixteen), builder.ashr(words, sixteen))


DOTS: dict[str, Dot] = {
    # 12 products and 12 sums of 32 registers; 10 products of 16; 16 products of 32.
    "avx512-vnni": Vpdpbusd(lanes=16, rows=6, vectors=2),
    "avx-vnni": Vpdpbusd(lanes=8, rows=5, vectors=2),
    "avx2": Vpmaddubsw(lanes=8, rows=5, vectors=2, pairs=True),
    "neon-dot": Sdot(lanes=4, rows=4, vectors=4),
    "portable": Plain(lanes=4, rows=2, vectors=2, pairs=True, native_half=False),
}
"""The operations of each variant, by its name (`features.VARIANTS`)."""
