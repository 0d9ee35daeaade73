"""Activations as the int8 kernels read them: a record for each row and 32 inputs.

    q = y rounded half to even, -127..127,   y = x * (127 / max|x|)
    x ~ scale * q,   scale = max|x| / 127 * (sum of y q / sum of q q)

in fp32. The integers are those of Q8_0; the scale is the one that leaves the least sum of squared errors with them,
where Q8_0 has max|x| / 127: a hundredth less error on Gaussian activations. A block without a number of 2^-100 or more
is zero: its reciprocal would not be finite. A block that holds NaN or infinity gets the scale NaN, so that every result
that depends on it is NaN: callers check their outputs.

A record has 40 bytes: 32 int8 numbers, a 32-bit correction and the scale. Records of one block of inputs lie together,
row after row; then come those of the next block.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from estream_lab.kernels.int8.dot import Dot
from estream_lab.kernels.vectors import F32, I8, I16, I32, broadcast, call, constant, load, store, vector

RECORD_BYTES = 40
CORRECTION, SCALE = 32, 36
"""Byte of a record at which its correction and its scale begin."""

SMALLEST = 2.0**-100
"""A block whose largest magnitude is below this is zero."""

_BLOCK = 32
_ROUND = 1.5 * 2**23  # adding it rounds to the nearest integer, which then stands in the lowest bits
_SMALLEST_BITS = (127 - 100) << 23
_ROUND_BITS = 0x4B400000
_INFINITY_BITS = 0x7F800000


def quantiser(dot: Dot) -> Any:
    """An intrinsic ``quantise(x, record)``: the record of 32 float32 numbers; both are addresses.

    The correction is -8 times the sum of the 32 integers, or for variants with pairs two int16 numbers: -8 times the
    sums of those at places 0 and 1, and 2 and 3, of the quads.
    """

    @intrinsic
    def quantise(typing_context: Any, x: Any, record: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            emit_record(builder, dot, *arguments)
            return context.get_dummy_value()

        return types.void(types.intp, types.intp), codegen

    return quantise


def emit_record(builder: ir.IRBuilder, dot: Dot, x: ir.Value, record: ir.Value) -> None:
    """Emit the quantiser: see `quantiser`. Magnitudes are compared as integers, which order NaN above infinity."""
    floats, words = vector(F32, _BLOCK), vector(I32, _BLOCK)
    values = load(builder, x, 0, floats)
    magnitudes = builder.and_(builder.bitcast(values, words), constant(words, 0x7FFFFFFF))
    bits = call(builder, f"llvm.vector.reduce.umax.v{_BLOCK}i32", I32, magnitudes)
    largest = builder.bitcast(bits, F32)
    something = builder.icmp_unsigned(">=", bits, ir.Constant(I32, _SMALLEST_BITS))
    finite = builder.icmp_unsigned("<", bits, ir.Constant(I32, _INFINITY_BITS))
    limit, zero = ir.Constant(F32, 127.0), ir.Constant(F32, 0.0)
    scale = builder.fdiv(largest, limit)
    inverse = builder.select(something, builder.fdiv(limit, largest), zero)
    scaled = builder.fmul(values, broadcast(builder, inverse, _BLOCK))
    shifted = builder.fadd(scaled, constant(floats, _ROUND))
    q = builder.trunc(builder.sub(builder.bitcast(shifted, words), constant(words, _ROUND_BITS)), vector(I8, _BLOCK))
    store(builder, q, record, 0)
    scale = builder.fmul(scale, _best_factor(builder, scaled, builder.fsub(shifted, constant(floats, _ROUND))))
    scale = builder.select(something, scale, zero)
    store(builder, builder.select(finite, scale, ir.Constant(F32, float("nan"))), record, SCALE)
    store(builder, _correction(builder, dot, q), record, CORRECTION)


def _best_factor(builder: ir.IRBuilder, y: ir.Value, q: ir.Value) -> ir.Value:
    """The factor f that makes the sum of (y - f q)^2 least. Sums of q q are exact in fp32."""
    along, squares = (_folded_sum(builder, builder.fmul(factor, q)) for factor in (y, q))
    return builder.fdiv(along, squares)


def _folded_sum(builder: ir.IRBuilder, values: ir.Value) -> ir.Value:
    """The sum, always in the same order: the upper half is added to the lower one until one number is left."""
    lanes = values.type.count
    while lanes > 1:
        lanes //= 2
        lower, upper = (ir.Constant(vector(I32, lanes), list(range(i, i + lanes))) for i in (0, lanes))
        parts = (builder.shuffle_vector(values, values, part) for part in (lower, upper))
        values = builder.fadd(*parts)
    return builder.extract_element(values, ir.Constant(I32, 0))


def _correction(builder: ir.IRBuilder, dot: Dot, q: ir.Value) -> ir.Value:
    lanes = _BLOCK // 2
    halves = vector(I16, lanes)
    words, eight = builder.bitcast(q, halves), constant(halves, 8)
    # Of two neighbours each; then lanes are folded until one quad's are left.
    sums = builder.add(builder.ashr(builder.shl(words, eight), eight), builder.ashr(words, eight))
    while lanes > 2:
        lanes //= 2
        lower, upper = (ir.Constant(vector(I32, lanes), list(range(i, i + lanes))) for i in (0, lanes))
        sums = builder.add(builder.shuffle_vector(sums, sums, lower), builder.shuffle_vector(sums, sums, upper))
    if not dot.pairs:
        total = builder.add(*(builder.extract_element(sums, ir.Constant(I32, i)) for i in (0, 1)))
        return builder.mul(builder.sext(total, I32), ir.Constant(I32, -8))
    return builder.bitcast(builder.mul(sums, constant(vector(I16, 2), -8)), I32)
