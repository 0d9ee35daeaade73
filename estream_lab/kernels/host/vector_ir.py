"""The few vector operations that Python loops cannot express, emitted as LLVM IR from numba intrinsics.

`tile_kernel(rows)` is the one matrix micro-kernel: a register block of `rows` x 32 fp32 sums, one fused multiply-add a
weight. The IR is portable: LLVM lowers its vectors to AVX2, AVX-512 or NEON. Each sum is the same chain of roundings,
whatever the number of rows, the vector width or the machine.
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

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()

_FEATURES = features()
LANES = 16 if "avx512f" in _FEATURES else 8
"""fp32 numbers in the vectors that kernels are written in: a register of AVX-512 or AVX2, two of NEON."""

# 12 of 16 registers are sums with AVX2; 16 of 32 with AVX-512; 24 of 32 (half as wide) with NEON.
MAX_ROWS = 8 if "avx512f" in _FEATURES else 3
"""Rows of the largest register block that this CPU holds in registers."""


def _function(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
    known = builder.module.globals.get(name)
    return known or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


def emit_fma(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """``x * y + z`` of fp32 numbers or vectors with one rounding."""
    kind = z.type
    name = f"llvm.fma.v{kind.count}f32" if isinstance(kind, ir.VectorType) else "llvm.fma.f32"
    return builder.call(_function(builder, name, kind, [kind] * 3), [x, y, z])


def _splat(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    kind = ir.VectorType(_F32, LANES)
    undefined = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES))


def _number(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


def _after(builder: ir.IRBuilder, base: ir.Value, elements: ir.Value) -> ir.Value:
    """The address of the float `elements` after the address `base`."""
    return builder.add(base, builder.shl(elements, _number(2)))


def _pointer(builder: ir.IRBuilder, base: ir.Value, elements: ir.Value, kind: ir.Type) -> ir.Value:
    return builder.inttoptr(_after(builder, base, elements), kind.as_pointer())


def _load(builder: ir.IRBuilder, base: ir.Value, elements: int, kind: ir.Type) -> ir.Value:
    return builder.load(_pointer(builder, base, _number(elements), kind), align=4)


def tile_kernel(rows: int) -> Any:
    """An intrinsic that adds a product to a tile: ``c[r, :] += sum over k of x[row r, k] * w[k, :]``, k ascending.

    Called as ``kernel(x, index, ldx, w, depth, c, ldc)``. x, w and c are addresses of float32 numbers, index one of
    int32 numbers (see `address`); the steps ldx and ldc count numbers:

    - x: row r, 0 <= r < rows, starts ``index[r] * ldx`` after x and has `depth` elements;
    - w: (depth, 32), a strip;
    - c: row r starts ``r * ldc`` after c and has 32 elements.

    Nothing is bounds-checked. The function that calls it is never inlined: copies of the loop cost seconds to compile.
    """

    @intrinsic
    def kernel(typing_context: Any, x: Any, index: Any, ldx: Any, w: Any, depth: Any, c: Any, ldc: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.function.attributes.add("noinline")
            _emit_tile(builder, rows, *arguments)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), codegen

    return kernel


def _emit_tile(
    builder: ir.IRBuilder,
    rows: int,
    x: ir.Value,
    index: ir.Value,
    ldx: ir.Value,
    w: ir.Value,
    depth: ir.Value,
    c: ir.Value,
    ldc: ir.Value,
) -> None:
    vector = ir.VectorType(_F32, LANES)
    groups = range(COLUMNS // LANES)
    x_rows, c_rows = [], []
    for r in range(rows):
        row = builder.sext(builder.load(_pointer(builder, index, _number(r), _I32), align=4), _I64)
        x_rows.append(_after(builder, x, builder.mul(row, ldx)))
        c_rows.append(_after(builder, c, builder.mul(ldc, _number(r))))
    start = [[_load(builder, c_rows[r], g * LANES, vector) for g in groups] for r in range(rows)]
    before = builder.block
    head, body, done = (builder.append_basic_block(name) for name in ("head", "body", "done"))
    builder.branch(head)

    builder.position_at_end(head)
    k, w_row = builder.phi(_I64), builder.phi(_I64)
    sums = [[builder.phi(vector) for _ in groups] for _ in range(rows)]
    builder.cbranch(builder.icmp_signed("<", k, depth), body, done)

    builder.position_at_end(body)
    # Inputs first, then one vector of weights at a time: 3 + 1 + 12 values fill AVX2's 16 registers exactly.
    values = [_splat(builder, builder.load(_pointer(builder, x_rows[r], k, _F32), align=4)) for r in range(rows)]
    added: list[list[ir.Value]] = [[] for _ in range(rows)]
    for g in groups:
        weights = _load(builder, w_row, g * LANES, vector)
        for r in range(rows):
            added[r].append(emit_fma(builder, values[r], weights, sums[r][g]))
    next_k, next_row = builder.add(k, _number(1)), _after(builder, w_row, _number(COLUMNS))
    builder.branch(head)

    for phi, first, following in ((k, _number(0), next_k), (w_row, w, next_row)):
        phi.add_incoming(first, before)
        phi.add_incoming(following, body)
    for r in range(rows):
        for g in groups:
            sums[r][g].add_incoming(start[r][g], before)
            sums[r][g].add_incoming(added[r][g], body)

    builder.position_at_end(done)
    for r in range(rows):
        for g in groups:
            builder.store(sums[r][g], _pointer(builder, c_rows[r], _number(g * LANES), vector), align=4)


FOLD_LANES = 8
"""Lanes that a fold keeps: number j goes to lane j mod 8."""


def _lanes(builder: ir.IRBuilder, vector: ir.Value, lanes: range) -> ir.Value:
    undefined = ir.Constant(vector.type, ir.Undefined)
    return builder.shuffle_vector(vector, undefined, ir.Constant(ir.VectorType(_I32, len(lanes)), list(lanes)))


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
            vector = ir.VectorType(_F32, FOLD_LANES)
            lanes = _load(builder, arguments[0], 0, vector)
            for at in range(FOLD_LANES, count, FOLD_LANES):
                lanes = operation(builder, lanes, _load(builder, arguments[0], at, vector))
            width = FOLD_LANES
            while width > 1:
                width //= 2
                low, high = _lanes(builder, lanes, range(width)), _lanes(builder, lanes, range(width, 2 * width))
                lanes = operation(builder, low, high)
            return builder.extract_element(lanes, ir.Constant(_I32, 0))

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
        return builder.ptrtoint(data, _I64)

    return types.intp(array), codegen


@intrinsic
def take_share(typing_context: Any, counter: Any) -> Any:
    """The next number of a counter that threads share: reads the int64 at the address `counter` and adds 1 to it, as
    one step. Nothing else is ordered by it: what threads write is read only after they have been waited for."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], _I64.as_pointer())
        return builder.atomic_rmw("add", place, ir.Constant(_I64, 1), "monotonic")

    return types.int64(types.intp), codegen


@intrinsic
def fma(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
    """``x * y + z`` of float32 numbers with one rounding."""
    f = types.float32

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return emit_fma(builder, *arguments)

    return f(f, f, f), codegen


@intrinsic
def float_of_bits(typing_context: Any, bits: Any) -> Any:
    """The float32 whose bits are those of a uint32."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _F32)

    return types.float32(types.uint32), codegen
