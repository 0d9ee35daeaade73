"""The few vector operations that Python loops cannot express, emitted as LLVM IR from numba intrinsics.

The IR is portable: LLVM lowers its vectors to AVX2, AVX-512 or NEON. Each sum is the same chain of roundings, whatever
the vector width or the machine. `tile_ir` holds the matrix micro-kernel, made of the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from estream_lab.kernels.features import features

COLUMNS = 32
"""Columns of the register block: a strip."""

I32, I64, F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()

_FEATURES = features()
LANES = 16 if "avx512f" in _FEATURES else 8
"""fp32 numbers in the vectors that kernels are written in: a register of AVX-512 or AVX2, two of NEON."""

# 12 of 16 registers are sums with AVX2; 16 of 32 with AVX-512; 24 of 32 (half as wide) with NEON.
MAX_ROWS = 8 if "avx512f" in _FEATURES else 3
"""Rows of the largest register block that this CPU holds in registers."""


def _function(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
    known = builder.module.globals.get(name)
    return known or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


def fused(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """``x * y + z`` of float32 numbers, or vectors of them, with one rounding."""
    kind = z.type
    name = f"llvm.fma.v{kind.count}f32" if isinstance(kind, ir.VectorType) else "llvm.fma.f32"
    return builder.call(_function(builder, name, kind, [kind] * 3), [x, y, z])


def splat(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """A float32 number in every lane."""
    kind = ir.VectorType(F32, LANES)
    undefined = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(I32, LANES), [0] * LANES))


def number(value: int) -> ir.Constant:
    """An address, or a count, that is known when a kernel is made."""
    return ir.Constant(I64, value)


def after(builder: ir.IRBuilder, base: ir.Value, elements: ir.Value) -> ir.Value:
    """The address of the float `elements` after the address `base`."""
    return builder.add(base, builder.shl(elements, number(2)))


def pointer(builder: ir.IRBuilder, base: ir.Value, elements: ir.Value, kind: ir.Type) -> ir.Value:
    """The place of the float `elements` after the address `base`, where something of this type lies."""
    return builder.inttoptr(after(builder, base, elements), kind.as_pointer())


def load(builder: ir.IRBuilder, base: ir.Value, elements: int, kind: ir.Type) -> ir.Value:
    """What lies `elements` floats after the address `base`."""
    return builder.load(pointer(builder, base, number(elements), kind), align=4)


FOLD_LANES = 8
"""Lanes that a fold keeps: number j goes to lane j mod 8."""


def _lanes(builder: ir.IRBuilder, vector: ir.Value, lanes: range) -> ir.Value:
    undefined = ir.Constant(vector.type, ir.Undefined)
    return builder.shuffle_vector(vector, undefined, ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes)))


def _add(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    return builder.fadd(x, y)


def _larger(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """NaN where one of them is."""
    name = f"llvm.maximum.v{x.type.count}f32"
    return builder.call(_function(builder, name, x.type, [x.type] * 2), [x, y])


def fold(operation: Callable[[ir.IRBuilder, ir.Value, ir.Value], ir.Value], count: int) -> Any:
    """An intrinsic that folds `count` float32 numbers, a multiple of 8, at an address: ``folded(x)``.

    Lanes are folded by position, then in halves: always in this order, which a loop that LLVM turns into vectors itself
    may not change, so that it leaves such loops one by one.
    """

    @intrinsic
    def folded(typing_context: Any, x: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = ir.VectorType(F32, FOLD_LANES)
            lanes = load(builder, arguments[0], 0, vector)
            for at in range(FOLD_LANES, count, FOLD_LANES):
                lanes = operation(builder, lanes, load(builder, arguments[0], at, vector))
            width = FOLD_LANES
            while width > 1:
                width //= 2
                low, high = _lanes(builder, lanes, range(width)), _lanes(builder, lanes, range(width, 2 * width))
                lanes = operation(builder, low, high)
            return builder.extract_element(lanes, ir.Constant(I32, 0))

        return types.float32(types.intp), codegen

    return folded


def sum_of(count: int) -> Any:
    """An intrinsic: the sum of `count` float32 numbers at an address, see `fold`."""
    return fold(_add, count)


def largest_of(count: int) -> Any:
    """An intrinsic: the largest of `count` float32 numbers at an address, NaN if one of them is, see `fold`."""
    return fold(_larger, count)


@intrinsic
def address(typing_context: Any, array: Any) -> Any:
    """The address of an array's first element. The array must outlive its use: pass arrays in, don't make them here."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.ptrtoint(data, I64)

    return types.intp(array), codegen


@intrinsic
def take_share(typing_context: Any, counter: Any) -> Any:
    """The next number of a counter that threads share: reads the int64 at the address `counter` and adds 1 to it, as
    one step. Nothing else is ordered by it: what threads write is read only after they have been waited for."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], I64.as_pointer())
        return builder.atomic_rmw("add", place, ir.Constant(I64, 1), "monotonic")

    return types.int64(types.intp), codegen


@intrinsic
def fma(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
    """``x * y + z`` of float32 numbers with one rounding."""
    f = types.float32

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return fused(builder, *arguments)

    return f(f, f, f), codegen


@intrinsic
def float_of_bits(typing_context: Any, bits: Any) -> Any:
    """The float32 whose bits are those of a uint32."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], F32)

    return types.float32(types.uint32), codegen
