"""The few vector operations that Python loops cannot express, emitted as LLVM IR from numba intrinsics.

`tile_kernel(rows)` is the one matrix micro-kernel: a register block of `rows` x 32 fp32 sums, one fused multiply-add a
weight. The IR is portable: LLVM lowers its vectors to AVX2, AVX-512 or NEON. Each sum is the same chain of roundings,
whatever the number of rows, the vector width or the machine.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

COLUMNS = 32
"""Columns of the register block: a strip."""

_I32, _I64, _F32 = ir.IntType(32), ir.IntType(64), ir.FloatType()


def _cpu_features() -> set[str]:
    """The features numba compiles for: the machine's own unless NUMBA_CPU_FEATURES says otherwise."""
    if config.CPU_FEATURES is not None:
        return {name[1:] for name in config.CPU_FEATURES.split(",") if name.startswith("+")}
    return {name for name, present in llvm.get_host_cpu_features().items() if present}


_FEATURES = _cpu_features()
_LANES = 16 if "avx512f" in _FEATURES else 8
# 12 of 16 registers are sums with AVX2; 16 of 32 with AVX-512; 24 of 32 (half as wide) with NEON.
MAX_ROWS = 8 if "avx512f" in _FEATURES else 3
"""Rows of the largest register block that this CPU holds in registers."""


def _function(builder: ir.IRBuilder, name: str, result: ir.Type, arguments: list[ir.Type]) -> ir.Function:
    known = builder.module.globals.get(name)
    return known or ir.Function(builder.module, ir.FunctionType(result, arguments), name)


def _fma(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    kind = z.type
    name = f"llvm.fma.v{kind.count}f32" if isinstance(kind, ir.VectorType) else "llvm.fma.f32"
    return builder.call(_function(builder, name, kind, [kind] * 3), [x, y, z])


def _splat(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    kind = ir.VectorType(_F32, _LANES)
    undefined = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, _LANES), [0] * _LANES))


def _pointer(builder: ir.IRBuilder, base: ir.Value, elements: ir.Value, kind: ir.Type) -> ir.Value:
    """Pointer to `kind` at `elements` floats past the address `base`."""
    return builder.inttoptr(builder.add(base, builder.shl(elements, ir.Constant(_I64, 2))), kind.as_pointer())


def tile_kernel(rows: int) -> Any:
    """An intrinsic that adds a product to a tile: ``c[r, :] += sum over k of x[row r, k] * w[k, :]``, k ascending.

    Called as ``kernel(x, index, first, x0, ldx, w, w0, ldw, depth, c, c0, ldc)``; x, w and c are C-contiguous float32
    arrays of any shape, addressed as flat runs of floats:

    - x: row r, 0 <= r < rows, starts at ``x0 + index[first + r] * ldx`` (index: int32) and has `depth` elements;
    - w: row k starts at ``w0 + k * ldw`` and has 32 elements;
    - c: row r starts at ``c0 + r * ldc`` and has 32 elements.

    Nothing is bounds-checked.
    """
    vector = ir.VectorType(_F32, _LANES)
    groups = COLUMNS // _LANES

    @intrinsic
    def kernel(
        typing_context: Any,
        x: Any,
        index: Any,
        first: Any,
        x0: Any,
        ldx: Any,
        w: Any,
        w0: Any,
        ldw: Any,
        depth: Any,
        c: Any,
        c0: Any,
        ldc: Any,
    ) -> Any:
        n = types.intp
        signature = types.void(x, index, n, n, n, w, n, n, n, c, n, n)

        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            x, index, first, x0, ldx, w, w0, ldw, depth, c, c0, ldc = arguments
            x, index, w, c = (
                builder.ptrtoint(context.make_array(signature.args[i])(context, builder, arguments[i]).data, _I64)
                for i in (0, 1, 5, 9)
            )
            zero, one = ir.Constant(_I64, 0), ir.Constant(_I64, 1)
            x_rows, c_rows = [], []
            for r in range(rows):
                at = builder.add(first, ir.Constant(_I64, r))
                row = builder.sext(builder.load(_pointer(builder, index, at, _I32), align=4), _I64)
                x_rows.append(builder.add(x0, builder.mul(row, ldx)))
                c_rows.append(builder.add(c0, builder.mul(ldc, ir.Constant(_I64, r))))

            def c_pointer(r: int, g: int) -> Any:
                return _pointer(builder, c, builder.add(c_rows[r], ir.Constant(_I64, g * _LANES)), vector)

            start = [[builder.load(c_pointer(r, g), align=4) for g in range(groups)] for r in range(rows)]
            before = builder.block
            head, body, done = (builder.append_basic_block(name) for name in ("head", "body", "done"))
            builder.branch(head)

            builder.position_at_end(head)
            k, w_row = builder.phi(_I64), builder.phi(_I64)
            sums = [[builder.phi(vector) for _ in range(groups)] for _ in range(rows)]
            builder.cbranch(builder.icmp_signed("<", k, depth), body, done)

            builder.position_at_end(body)
            weights = [
                builder.load(_pointer(builder, w, builder.add(w_row, ir.Constant(_I64, g * _LANES)), vector), align=4)
                for g in range(groups)
            ]
            added = []
            for r in range(rows):
                value = builder.load(_pointer(builder, x, builder.add(x_rows[r], k), _F32), align=4)
                spread = _splat(builder, value)
                added.append([_fma(builder, spread, weights[g], sums[r][g]) for g in range(groups)])
            next_k, next_w_row = builder.add(k, one), builder.add(w_row, ldw)
            builder.branch(head)

            for phi, first_value, next_value in ((k, zero, next_k), (w_row, w0, next_w_row)):
                phi.add_incoming(first_value, before)
                phi.add_incoming(next_value, body)
            for r in range(rows):
                for g in range(groups):
                    sums[r][g].add_incoming(start[r][g], before)
                    sums[r][g].add_incoming(added[r][g], body)

            builder.position_at_end(done)
            for r in range(rows):
                for g in range(groups):
                    builder.store(sums[r][g], c_pointer(r, g), align=4)
            return context.get_dummy_value()

        return signature, codegen

    return kernel


@intrinsic
def fma(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
    """``x * y + z`` of float32 numbers with one rounding."""
    f = types.float32

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _fma(builder, *arguments)

    return f(f, f, f), codegen


@intrinsic
def float_of_bits(typing_context: Any, bits: Any) -> Any:
    """The float32 whose bits are those of a uint32."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], _F32)

    return types.float32(types.uint32), codegen
