"""Dot products of a 32-block with weights of a whole byte (Q8_0): exact in integers, as in `dot`.

Records are the same as for nibbles. They bring -8 times the sum of the activations, which shifted by four bits is -128
times it: what VNNI needs, whose weights are w + 128. The other variants multiply signed numbers and need none.

Nibbles let AVX2 add a block's products in int16. Here two products, 2 * 127 * 127, nearly fill one, so that each
quad's are widened at once: 4 instructions for 32 multiply-adds where nibbles take little more than 2. In registers
alone (`peak.turn` of these operations) Zen 3 does half the multiply-adds that it does with nibbles. Weights and
activations widened to int16 beforehand reached 0.56 of them, with twice the bytes to read: not taken.
"""

from __future__ import annotations

from llvmlite import ir

from estream_lab.kernels.int8.dot import DOTS, Dot, Sdot, Vpdpbusd
from estream_lab.kernels.vectors import F32, I1, I8, I16, call, constant, vector


class BiasedVpdpbusd(Vpdpbusd):
    """VNNI: weights are made unsigned by adding 128, which is the highest bit turned over."""

    def weights(self, builder: ir.IRBuilder, words: ir.Value) -> ir.Value:
        """See `Dot`."""
        octets = vector(I8, 4 * self.lanes)
        return builder.bitcast(builder.xor(builder.bitcast(words, octets), constant(octets, 0x80)), self.words)

    def start(self, builder: ir.IRBuilder, correction: ir.Value) -> ir.Value:
        """See `Dot`."""
        return builder.shl(correction, constant(self.words, 4))


class SignedSdot(Sdot):
    """NEON: bytes are signed already."""

    def weights(self, builder: ir.IRBuilder, words: ir.Value) -> ir.Value:
        """See `Dot`."""
        return words


class _Signed(Dot):
    """Starts from zero, whatever the record's correction is."""

    def start(self, builder: ir.IRBuilder, correction: ir.Value) -> ir.Value:
        """See `Dot`."""
        return constant(self.words, 0)


class SignedVpmaddubsw(_Signed):
    """AVX2: |w| times x with the sign of w. |-128| is 128 unsigned, and 2 * 128 * 127 = 32,512 doesn't saturate."""

    def step(self, builder: ir.IRBuilder, sums: ir.Value, weights: ir.Value, quads: ir.Value) -> ir.Value:
        """See `Dot`. The magnitudes of a vector of weights are computed once: LLVM sees that rows share them."""
        octets, halves, floats = vector(I8, 4 * self.lanes), vector(I16, 2 * self.lanes), vector(F32, self.lanes)
        w, x = builder.bitcast(weights, octets), builder.bitcast(quads, octets)
        magnitude = call(builder, f"llvm.abs.v{octets.count}i8", octets, w, ir.Constant(I1, 0))
        signed = call(builder, "llvm.x86.avx2.psign.b", octets, x, w)
        two = call(builder, "llvm.x86.avx2.pmadd.ub.sw", halves, magnitude, signed)
        four = call(builder, "llvm.x86.avx2.pmadd.wd", self.words, two, constant(halves, 1))
        total = builder.bitcast(builder.add(sums, four), floats)
        # As for nibbles: products would be added to each other first.
        fenced = call(builder, f"llvm.arithmetic.fence.v{self.lanes}f32", floats, total)
        return builder.bitcast(fenced, self.words)


class SignedPlain(_Signed):
    """No special instruction: two products of a quad fit an int16 together, then they are widened."""

    def step(self, builder: ir.IRBuilder, sums: ir.Value, weights: ir.Value, quads: ir.Value) -> ir.Value:
        """See `Dot`."""
        halves = vector(I16, 2 * self.lanes)
        eight, sixteen = constant(halves, 8), constant(self.words, 16)
        w, x = builder.bitcast(weights, halves), builder.bitcast(quads, halves)
        even = builder.mul(*(builder.ashr(builder.shl(v, eight), eight) for v in (w, x)))
        odd = builder.mul(*(builder.ashr(v, eight) for v in (w, x)))
        two = builder.bitcast(builder.add(even, odd), self.words)
        four = builder.add(builder.ashr(builder.shl(two, sixteen), sixteen), builder.ashr(two, sixteen))
        return builder.add(sums, four)


def _like(name: str, kind: type[Dot]) -> Dot:
    """Register blocks are cut as for nibbles, so that records lie as `lane.record_place` says for both."""
    nibbles = DOTS[name]
    return kind(nibbles.lanes, nibbles.rows, nibbles.vectors, native_half=nibbles.native_half)


DOTS_Q8: dict[str, Dot] = {
    "avx512-vnni": _like("avx512-vnni", BiasedVpdpbusd),
    "avx-vnni": _like("avx-vnni", BiasedVpdpbusd),
    "avx2": _like("avx2", SignedVpmaddubsw),
    "neon-dot": _like("neon-dot", SignedSdot),
    "portable": _like("portable", SignedPlain),
}
"""The operations of each variant, by its name (`features.VARIANTS`)."""
