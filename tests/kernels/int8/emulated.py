"""What vpdpbusd and sdot do, without them, for variants that this processor lacks."""

from collections.abc import Callable

from llvmlite import ir

from estream_lab.kernels.int8.dot import Dot
from estream_lab.kernels.vectors import constant

Step = Callable[[Dot, ir.IRBuilder, ir.Value, ir.Value, ir.Value], ir.Value]


def four_products(signed: bool) -> Step:
    """A `Dot.step`: four products of bytes of activations, which are signed, and of weights that are or aren't."""

    def step(self: Dot, builder: ir.IRBuilder, sums: ir.Value, weights: ir.Value, quads: ir.Value) -> ir.Value:
        bits = constant(self.words, 24)
        for byte in range(4):
            place = constant(self.words, 24 - 8 * byte)
            w, x = builder.shl(weights, place), builder.ashr(builder.shl(quads, place), bits)
            w = builder.ashr(w, bits) if signed else builder.lshr(w, bits)
            sums = builder.add(sums, builder.mul(w, x))
        return sums

    return step
