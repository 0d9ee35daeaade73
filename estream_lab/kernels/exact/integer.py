"""Integer operations that numba lacks, as intrinsics: its own shifts widen to 64 bits, half the lanes of a vector."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_I32 = ir.IntType(32)
_MOST_PLACES = 31  # an accumulator and a product have fewer bits: more places change nothing


@intrinsic
def align(typing_context: Any, significand: Any, places: Any) -> Any:
    """Shift an int32 right by int32 `places` >= 0, towards minus infinity.

    The last bit of the result is also set where a bit that isn't zero was shifted out (docs/numerics.md, "Align").
    """

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value, shift = arguments
        most = ir.Constant(_I32, _MOST_PLACES)
        shift = builder.select(builder.icmp_signed("<", shift, most), shift, most)
        kept = builder.ashr(value, shift)
        lost = builder.icmp_signed("!=", builder.shl(kept, shift), value)
        return builder.or_(kept, builder.zext(lost, _I32))

    return types.int32(types.int32, types.int32), codegen


@intrinsic
def shift_left(typing_context: Any, value: Any, places: Any) -> Any:
    """An int32 shifted left by int32 `places`, 0 to 31; bits beyond the top are gone."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.shl(*arguments)

    return types.int32(types.int32, types.int32), codegen


@intrinsic
def shift_right(typing_context: Any, value: Any, places: Any) -> Any:
    """An int32 shifted right by int32 `places`, 0 to 31, towards minus infinity."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ashr(*arguments)

    return types.int32(types.int32, types.int32), codegen


@intrinsic
def bit_length(typing_context: Any, value: Any) -> Any:
    """Bits of an int32 >= 0 from its highest set one on, as an int32; 0 for 0."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zeros = builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))
        return builder.sub(ir.Constant(_I32, 32), zeros)

    return types.int32(types.int32), codegen


@intrinsic
def power_of_two(typing_context: Any, exponent: Any) -> Any:
    """2 to an int32 exponent, -126 to 127, as a float32."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        biased = builder.add(arguments[0], ir.Constant(_I32, 127))
        return builder.bitcast(builder.shl(biased, ir.Constant(_I32, 23)), ir.FloatType())

    return types.float32(types.int32), codegen
