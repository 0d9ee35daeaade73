"""Compiled functions of addresses and numbers alone: made of emitted code, and called by address.

Numba compiles all that a function calls into it once more: a large kernel under two callers costs its seconds three
times. Addresses differ from process to process, so they are handed to compiled code as arguments and never kept in it.
So one compiled loop serves kernels of several kinds, and only those that are asked for are compiled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from estream_lab.kernels.vectors import I8, I64


def emitted(emit: Callable[..., None]) -> Any:
    """An intrinsic of 64-bit integers that returns nothing, whose code is what ``emit(builder, *arguments)`` emits."""

    @intrinsic
    def kernel(typing_context: Any, *numbers: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            emit(builder, *cgutils.unpack_tuple(builder, arguments[0]))
            return context.get_dummy_value()

        return types.void(types.StarArgTuple.from_types([types.intp] * len(numbers))), codegen

    return kernel


def address_of(kernel: Callable[..., None]) -> int:
    """Where the machine code of a compiled function of numbers starts; compiles it, or takes it from the cache."""
    numbers = len(inspect.signature(cast(Any, kernel).py_func).parameters)
    result = cast(Any, kernel).get_compile_result(types.void(*[types.intp] * numbers))
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name))


def _call(builder: ir.IRBuilder, place: ir.Value, *numbers: ir.Value) -> None:
    kind = ir.FunctionType(I8.as_pointer(), [I64] * len(numbers))  # numba's None is a pointer
    builder.call(builder.inttoptr(place, kind.as_pointer()), numbers)


call_at = emitted(_call)
"""Call the function at an address that `address_of` told, with as many numbers as it takes: ``call_at(place, *x)``."""
