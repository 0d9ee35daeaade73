"""What vdpbf16ps and vpermw do, without them, for processors that lack them."""

from llvmlite import ir

from estream_lab.kernels.bf16.dot import Vdpbf16ps
from estream_lab.kernels.vectors import F32, I32, constant, fma, vector


class EmulatedVdpbf16ps(Vdpbf16ps):
    """Two fused multiply-adds, of the odd elements first, and integers to bf16 by way of fp32."""

    def apart(self, builder: ir.IRBuilder, words: ir.Value, step: int) -> ir.Value:
        kind, floats = vector(I32, self.lanes), vector(F32, self.lanes)
        pair = constant(kind, 0)
        for place in (0, 16):
            shift = 4 * (0, 2, 1, 3)[step % 4] + place
            nibbles = builder.and_(builder.lshr(words, constant(kind, shift)), constant(kind, 15))
            number = builder.bitcast(builder.sitofp(builder.sub(nibbles, constant(kind, 8)), floats), kind)
            pair = builder.or_(pair, builder.lshr(number, constant(kind, 16 - place)))
        return builder.bitcast(pair, self.weights)

    def add(self, builder: ir.IRBuilder, sums: ir.Value, weights: ir.Value, activation: ir.Value) -> ir.Value:
        kind = vector(I32, self.lanes)
        w, x = builder.bitcast(weights, kind), activation
        upper = [builder.and_(pair, constant(kind, 0xFFFF0000)) for pair in (w, x)]
        lower = [builder.shl(pair, constant(kind, 16)) for pair in (w, x)]
        for pair in (upper, lower):
            sums = fma(builder, *(builder.bitcast(part, self.sums) for part in pair), sums)
        return sums
