"""The few words of LLVM IR that kernels are written in. Addresses are 64-bit integers, offsets count bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from llvmlite import ir

I1, I8, I16, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
F16, F32 = ir.HalfType(), ir.FloatType()


def vector(element: ir.Type, count: int) -> ir.VectorType:
    """The type of `count` elements."""
    return ir.VectorType(element, count)


def constant(kind: ir.Type, value: float) -> ir.Constant:
    """A number, or a vector of equal numbers."""
    return ir.Constant(kind, [value] * kind.count if isinstance(kind, ir.VectorType) else value)


def call(builder: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """Call one of LLVM's own functions."""
    function = builder.module.globals.get(name)
    if function is None:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        function = ir.Function(builder.module, kind, name)
    return builder.call(function, arguments)


def after(builder: ir.IRBuilder, address: ir.Value, offset: int) -> ir.Value:
    """The address `offset` bytes further."""
    return builder.add(address, ir.Constant(I64, offset)) if offset else address


def load(builder: ir.IRBuilder, address: ir.Value, offset: int, kind: ir.Type, align: int = 4) -> ir.Value:
    """A value of this type from memory."""
    return builder.load(builder.inttoptr(after(builder, address, offset), kind.as_pointer()), align=align)


def store(builder: ir.IRBuilder, value: ir.Value, address: ir.Value, offset: int, align: int = 4) -> None:
    """Put a value into memory."""
    builder.store(value, builder.inttoptr(after(builder, address, offset), value.type.as_pointer()), align=align)


def prefetch(builder: ir.IRBuilder, address: ir.Value, offset: int, size: int) -> None:
    """Bring the cache lines of `size` bytes that will be read; there need not be memory.

    Into the second-level cache: lines on their way to the first occupy its few places for misses, and loads wait
    (Zen 4: a layer of 4 rows an expert takes a fifth longer with those).
    """
    flags = [ir.Constant(I32, flag) for flag in (0, 2, 1)]  # to read, into the second-level cache, of data
    for line in range(offset, offset + size, 64):
        pointer = builder.inttoptr(after(builder, address, line), I8.as_pointer())
        call(builder, "llvm.prefetch.p0", ir.VoidType(), pointer, *flags)


def broadcast(builder: ir.IRBuilder, value: ir.Value, count: int) -> ir.Value:
    """A number in every lane of a vector."""
    kind = vector(value.type, count)
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, constant(vector(I32, count), 0))


def fma(builder: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """``x * y + z`` of fp32 vectors with one rounding."""
    return call(builder, f"llvm.fma.v{x.type.count}f32", x.type, x, y, z)


def floats_of_halves(builder: ir.IRBuilder, halves: ir.Value, native: bool) -> ir.Value:
    """The fp32 numbers that equal finite fp16 numbers, subnormal ones too.

    Args:
        builder: where to emit.
        halves: a vector of 16-bit integers, the numbers' bits.
        native: the processor converts; LLVM would call a function of its own run-time library if it doesn't.
    """
    count = halves.type.count
    floats, words = vector(F32, count), vector(I32, count)
    if native:
        return builder.fpext(builder.bitcast(halves, vector(F16, count)), floats)
    bits = builder.zext(halves, words)
    magnitude = builder.shl(builder.and_(bits, constant(words, 0x7FFF)), constant(words, 13))
    # A subnormal m * 2^-24 is (1 + m * 2^-10) * 2^-14 less 2^-14: no fp32 subnormal on the way.
    normal = builder.bitcast(builder.add(magnitude, constant(words, 112 << 23)), floats)
    small = builder.bitcast(builder.add(magnitude, constant(words, 113 << 23)), floats)
    small = builder.fsub(small, constant(floats, 2.0**-14))
    value = builder.select(builder.icmp_unsigned("<", magnitude, constant(words, 0x0400 << 13)), small, normal)
    sign = builder.shl(builder.and_(bits, constant(words, 0x8000)), constant(words, 16))
    return builder.bitcast(builder.or_(builder.bitcast(value, words), sign), floats)


@contextmanager
def loop(builder: ir.IRBuilder, turns: ir.Value, *moving: tuple[ir.Value, ir.Value]) -> Iterator[list[ir.Value]]:
    """Emit a loop of `turns` >= 1 turns around what is emitted within.

    Args:
        builder: stands behind the loop afterwards.
        turns: how many.
        moving: addresses, each with the bytes by which it moves on a turn.

    Yields:
        The addresses in a turn.
    """
    before, body, done = builder.block, builder.append_basic_block("turn"), builder.append_basic_block("done")
    builder.branch(body)
    builder.position_at_end(body)
    phis = [builder.phi(I64) for _ in range(len(moving) + 1)]
    yield phis[1:]
    steps = [(ir.Constant(I64, 0), ir.Constant(I64, 1)), *moving]
    following = [builder.add(phi, step) for phi, (_, step) in zip(phis, steps, strict=True)]
    for phi, (start, _), value in zip(phis, steps, following, strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(value, builder.block)
    builder.cbranch(builder.icmp_signed("<", following[0], turns), body, done)
    builder.position_at_end(done)
