"""Arrays between forbidden pages, so that a byte beyond them kills the process; and processes that may be killed."""

import ctypes
import mmap
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PAGE, _PROT_NONE = mmap.PAGESIZE, 0
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_kept: list[mmap.mmap] = []


def guarded(size: int, at_end: bool, shift: int = 0) -> int:
    """The address of `size` bytes between two forbidden pages, at the end or the start of what lies between.

    It is `shift` bytes off: a fault that a test plants.
    """
    room = -(-size // _PAGE) * _PAGE
    pages = mmap.mmap(-1, room + 2 * _PAGE)
    _kept.append(pages)
    base = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    for page in (base, base + _PAGE + room):
        assert _libc.mprotect(page, _PAGE, _PROT_NONE) == 0
    return base + _PAGE + (room - size if at_end else 0) + shift


def array(like: NDArray[Any], at_end: bool, shift: int = 0) -> NDArray[Any]:
    """A copy between forbidden pages: see `guarded`. Where it is off, nothing is copied."""
    at = guarded(like.nbytes, at_end, shift)
    made = np.ctypeslib.as_array((ctypes.c_uint8 * like.nbytes).from_address(at)).view(like.dtype).reshape(like.shape)
    if not shift:
        made[...] = like
    return made


def ends(case: Callable[..., None], *arguments: Any) -> int:
    """How a child ends that runs a case: 0, or the signal that killed it."""
    child = os.fork()
    if child == 0:
        try:
            case(*arguments)
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
