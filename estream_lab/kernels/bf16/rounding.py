"""Activations as the bf16 kernels read them: a record for each row and 32 inputs.

A number is rounded to the nearest of bf16, half to even; one below 2^-119 is zero. So every activation is a multiple of
2^-126, and so is every sum of products with integers, however it is rounded: none of them is subnormal. NaN stays NaN,
infinity stays infinity, and what rounds beyond 3.39e38 is infinity.

Records of one block of inputs lie together, row after row; then come those of the next block. Within a record, the
inputs are in the variant's order (`dot.Dot.order`), as bf16 or as the fp32 numbers that equal them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir

from estream_lab.kernels.apart import emitted
from estream_lab.kernels.bf16.dot import Dot
from estream_lab.kernels.vectors import F32, I16, I32, constant, load, store, vector

SMALLEST = 2.0**-119
"""Numbers whose magnitude is below this are zero."""

_BLOCK = 32
_SMALLEST_BITS = int(np.float32(SMALLEST).view(np.uint32))
_INFINITY_BITS = 0x7F800000
_NAN_BITS = 0x7FC00000


def rounder(dot: Dot) -> Any:
    """An intrinsic ``round_record(x, record)``: the record of 32 float32 numbers; both are addresses."""

    return emitted(partial(emit_record, dot))


def emit_record(dot: Dot, builder: ir.IRBuilder, x: ir.Value, record: ir.Value) -> None:
    """Emit the rounding: see `rounder`. Magnitudes are compared as integers, which order NaN above infinity."""
    words = vector(I32, _BLOCK)
    bits = load(builder, x, 0, words)
    magnitude = builder.and_(bits, constant(words, 0x7FFFFFFF))
    odd = builder.and_(builder.lshr(bits, constant(words, 16)), constant(words, 1))
    rounded = builder.add(builder.add(bits, constant(words, 0x7FFF)), odd)  # which may carry into the exponent
    tiny = builder.icmp_unsigned("<", magnitude, constant(words, _SMALLEST_BITS))
    nan = builder.icmp_unsigned(">", magnitude, constant(words, _INFINITY_BITS))
    rounded = builder.select(tiny, constant(words, 0), builder.select(nan, constant(words, _NAN_BITS), rounded))
    places = [8 * octet + k for octet in range(_BLOCK // 8) for k in dot.order]
    ordered = builder.shuffle_vector(rounded, rounded, ir.Constant(words, places))
    upper = builder.lshr(ordered, constant(words, 16))
    if dot.record_bytes == 2 * _BLOCK:
        store(builder, builder.trunc(upper, vector(I16, _BLOCK)), record, 0)
    else:
        store(builder, builder.bitcast(builder.shl(upper, constant(words, 16)), vector(F32, _BLOCK)), record, 0)
