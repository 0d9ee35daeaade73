"""The choice among a micro-kernel's register blocks: code of its own for each number of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from estream_lab.kernels.apart import emitted
from estream_lab.kernels.vectors import I64

RegisterBlock = Callable[..., None]
"""``block(builder, rows, x, w, blocks, c)`` emits the products of a fixed number of rows: see `product_kernel`."""


def product_kernel(block: RegisterBlock, sizes: range) -> Any:
    """An intrinsic that adds products to sums: ``c[r, :] += x[r, :] @ w`` for 0 <= r < rows, inputs ascending.

    Called as ``kernel(rows, x, w, blocks, c)`` with addresses and numbers:

    - rows: one of `sizes`, a register block; for other numbers nothing is done;
    - x: its records of `blocks` >= 1 blocks of inputs, one after the other;
    - w: as many blocks of a strip, as `block` reads them;
    - c: (rows, 32) float32.

    Nothing is bounds-checked. Use it in one function: copies of the loops cost seconds to compile.
    """

    def emit(builder: ir.IRBuilder, *operands: ir.Value) -> None:
        emit_product(builder, block, sizes, *operands)

    return emitted(emit)


def emit_product(
    builder: ir.IRBuilder, block: RegisterBlock, sizes: range, rows: ir.Value, *operands: ir.Value
) -> None:
    """Emit a loop for each number of rows: see `product_kernel`."""
    done = builder.append_basic_block("added")
    choice = builder.switch(rows, done)
    for fixed in sizes:
        case = builder.append_basic_block(f"rows{fixed}")
        choice.add_case(ir.Constant(I64, fixed), case)
        builder.position_at_end(case)
        block(builder, fixed, *operands)
        builder.branch(done)
    builder.position_at_end(done)
