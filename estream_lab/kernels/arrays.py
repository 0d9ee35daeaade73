"""Arrays as the kernels want them."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)

F32 = NDArray[np.float32]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U32 = NDArray[np.uint32]
U8 = NDArray[np.uint8]

_LINE = 64


def as_input(array: NDArray[Any], dtype: type[Scalar], shape: tuple[int | None, ...], name: str) -> NDArray[Scalar]:
    """A C-contiguous read-only view of `array`, or a copy where its type or order differs.

    Numba compiles a kernel anew for writable and for read-only arrays; this way there is one version of each.

    Raises:
        ValueError: a shape other than `shape`, in which None is any size.
    """
    _check_shape(array, shape, name)
    view = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


def as_output(array: NDArray[Any], dtype: type[Scalar], shape: tuple[int | None, ...], name: str) -> NDArray[Scalar]:
    """`array` itself, checked: it is written to, so a copy would not do.

    Raises:
        ValueError: another type, order or shape (in which None is any size), or a read-only array.
    """
    _check_shape(array, shape, name)
    if array.dtype != dtype or not array.flags.c_contiguous or not array.flags.writeable:
        raise ValueError(f"{name} must be a writable, C-contiguous {np.dtype(dtype)} array")
    return array


def aligned(size: int) -> NDArray[np.uint8]:
    """`size` bytes at the start of a cache line: a vector that crosses lines is loaded in two steps."""
    memory = np.empty(size + _LINE, np.uint8)
    first = -memory.ctypes.data % _LINE
    return memory[first : first + size]


def _check_shape(array: NDArray[Any], shape: tuple[int | None, ...], name: str) -> None:
    fits = array.ndim == len(shape) and all(want in (None, have) for have, want in zip(array.shape, shape, strict=True))
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must have shape ({wanted}), not {array.shape}")
