"""Dot products of a 32-block: weights q - 8, which bf16 holds exactly, times one row's activations in bf16.

A block's sum is a chain of 32 fused multiply-adds in fp32 that starts from zero and takes the inputs in the order
`CHAIN`. The products are exact (four bits times eight), and with `rounding.SMALLEST` no sum is subnormal, so it means
nothing that vdpbf16ps takes subnormal numbers for zero.

Each variant has its operations. A *step* takes 32 bits of activations of one row: a pair in bf16, or one in fp32.
"""

from __future__ import annotations

from dataclasses import dataclass

from llvmlite import ir

from estream_lab.kernels.bf16.vectors import BF16
from estream_lab.kernels.vectors import F32, I16, I32, broadcast, call, constant, fma, load, vector

CHAIN = (2, 0, 3, 1, 6, 4, 7, 5)
"""The order of eight inputs within a chain; the next eight follow.

vdpbf16ps adds the product of the odd elements first, then that of the even ones (Intel's manual, volume 2). As a pair
it gets the two nibbles of a packed word that lie 16 bits apart: inputs 0 and 2, 1 and 3, 4 and 6, 5 and 7.
"""

OCTETS = 4
"""Words of a column that a packed block has: eight nibbles each."""


@dataclass(frozen=True)
class Dot:
    """A variant's operations and the register block that suits it.

    Attributes:
        lanes: columns of a vector.
        rows: of the largest register block.
        vectors: column vectors of a register block.
        packed_rows: up to so many rows, register blocks take packed weights apart themselves.
        native_half: the processor converts fp16 to fp32.
    """

    lanes: int
    rows: int
    vectors: int
    packed_rows: int
    native_half: bool = True

    order = CHAIN
    """Which of eight inputs lies at each place of a record (`rounding`)."""
    steps = 32
    """Of a block."""

    @property
    def width(self) -> int:
        """Columns of a register block."""
        return self.lanes * self.vectors

    @property
    def record_bytes(self) -> int:
        """Of a row's 32 activations."""
        return 4 * self.steps

    @property
    def sums(self) -> ir.VectorType:
        """The type of a vector of sums."""
        return vector(F32, self.lanes)

    @property
    def weights(self) -> ir.VectorType:
        """The type of a vector of weights of one step."""
        raise NotImplementedError

    def apart(self, builder: ir.IRBuilder, words: ir.Value, step: int) -> ir.Value:
        """Weights of one of the steps whose nibbles are in a vector of packed words."""
        raise NotImplementedError

    def activation(self, builder: ir.IRBuilder, record: ir.Value, offset: int) -> ir.Value:
        """One step's activations from a record, in every lane."""
        raise NotImplementedError

    def add(self, builder: ir.IRBuilder, sums: ir.Value, weights: ir.Value, activation: ir.Value) -> ir.Value:
        """Add one step's products."""
        raise NotImplementedError


class Vdpbf16ps(Dot):
    """AVX512-BF16: two products a column in one instruction."""

    order = (0, 2, 1, 3, 4, 6, 5, 7)
    steps = 16

    @property
    def weights(self) -> ir.VectorType:
        """See `Dot`."""
        return vector(I16, 2 * self.lanes)

    def apart(self, builder: ir.IRBuilder, words: ir.Value, step: int) -> ir.Value:
        """By a table that vpermw looks 5 bits up in: each number twice, so that the fifth doesn't count."""
        codes = [ir.Constant(I16, code) for code in _BF16_CODES * 2]
        shift = 4 * (0, 2, 1, 3)[step % 4]
        nibbles = builder.lshr(builder.bitcast(words, self.weights), constant(self.weights, shift))
        name = f"llvm.x86.avx512.permvar.hi.{32 * self.lanes}"
        return call(builder, name, self.weights, ir.Constant(self.weights, codes), nibbles)

    def activation(self, builder: ir.IRBuilder, record: ir.Value, offset: int) -> ir.Value:
        """See `Dot`."""
        return broadcast(builder, load(builder, record, offset, I32), self.lanes)

    def add(self, builder: ir.IRBuilder, sums: ir.Value, weights: ir.Value, activation: ir.Value) -> ir.Value:
        """See `Dot`."""
        pairs, name = vector(BF16, 2 * self.lanes), f"llvm.x86.avx512bf16.dpbf16ps.{32 * self.lanes}"
        operands = (builder.bitcast(weights, pairs), builder.bitcast(activation, pairs))
        return call(builder, name, self.sums, sums, *operands)


class Fma(Dot):
    """Fused multiply-adds of fp32 numbers, which any vector unit has."""

    @property
    def weights(self) -> ir.VectorType:
        """See `Dot`."""
        return self.sums

    def apart(self, builder: ir.IRBuilder, words: ir.Value, step: int) -> ir.Value:
        """A nibble in a mantissa whose last bit stands for the nibble's last bit is that number and the leading one."""
        kind = words.type
        place = 8 * (CHAIN[step % 8] % 4) + 4 * (CHAIN[step % 8] // 4)  # bit of the word
        if place > _MANTISSA - 4:
            words, place = builder.lshr(words, constant(kind, 16)), place - 16
        leading = float(1 << (_MANTISSA - place))
        bits = (_BIAS + _MANTISSA - place) << _MANTISSA
        number = builder.or_(builder.and_(words, constant(kind, 15 << place)), constant(kind, bits))
        return builder.fsub(builder.bitcast(number, self.sums), constant(self.sums, leading + 8))

    def activation(self, builder: ir.IRBuilder, record: ir.Value, offset: int) -> ir.Value:
        """See `Dot`."""
        return broadcast(builder, load(builder, record, offset, F32), self.lanes)

    def add(self, builder: ir.IRBuilder, sums: ir.Value, weights: ir.Value, activation: ir.Value) -> ir.Value:
        """See `Dot`."""
        return fma(builder, weights, activation, sums)


_MANTISSA, _BIAS = 23, 127
_BF16_CODES = [0xC100, 0xC0E0, 0xC0C0, 0xC0A0, 0xC080, 0xC040, 0xC000, 0xBF80,
               0x0000, 0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0, 0x40E0]  # fmt: skip
"""Of -8 to 7."""

DOTS: dict[str, Dot] = {
    # 16 sums of 32 registers; 10 of 16, 20 of 32.
    "avx512-bf16": Vdpbf16ps(lanes=16, rows=8, vectors=2, packed_rows=41),
    "avx2": Fma(lanes=8, rows=5, vectors=2, packed_rows=15),
    "portable": Fma(lanes=4, rows=5, vectors=4, packed_rows=15, native_half=False),
}
"""The operations of each variant, by its name (`variants.VARIANTS`)."""
