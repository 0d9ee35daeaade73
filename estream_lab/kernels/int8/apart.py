"""Compiled functions that are called by address.

Numba compiles all that a function calls into it once more: a large kernel under two callers costs its seconds three
times. Addresses differ from process to process, so they are handed to compiled code as arguments and never kept in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from estream_lab.kernels.int8.vectors import I8, I64

_NUMBERS = 6


def address_of(kernel: Callable[[int, int, int, int, int, int], None]) -> int:
    """Where the machine code of a compiled function of six numbers starts; compiles it, or takes it from the cache."""
    result = cast(Any, kernel).get_compile_result(types.void(*[types.intp] * _NUMBERS))
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))


@intrinsic
def call_at(typing_context: Any, place: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any) -> Any:
    """Call the function at an address that `address_of` told, with six numbers."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(I8.as_pointer(), [I64] * _NUMBERS)  # numba's None is a pointer
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), arguments[1:])
        return context.get_dummy_value()

    return types.void(*[types.intp] * (_NUMBERS + 1)), codegen
