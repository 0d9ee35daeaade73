"""The decorator of every function that numba compiles here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from numba import config, njit

P = ParamSpec("P")
R = TypeVar("R")


def _fingerprint() -> str:
    """Names the sources of this package, and the one setting that changes machine code without changing a source."""
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    digest.update(str(config.BOUNDSCHECK).encode())
    return digest.hexdigest()


_FINGERPRINT = _fingerprint()

UNCACHED: list[str] = []
"""Functions that every process compiles anew, because no folder for the cache can be written."""


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile without the interpreter lock, division checks or reordering of sums; cached on disk where that can be.

    Numba trusts a cached function while its own file is unchanged, even if the functions and intrinsics that were
    compiled into it come from files that have changed. So the fingerprint of all these files is made part of the name
    under which it is cached.
    """
    name = function.__qualname__
    function.__qualname__ = f"{name}_{_FINGERPRINT}"
    try:
        return cast("Callable[P, R]", njit(nogil=True, cache=True, error_model="numpy")(function))
    except RuntimeError:  # numba's "no locator available": neither this folder nor the user's own can be written
        UNCACHED.append(name)
        return cast("Callable[P, R]", njit(nogil=True, error_model="numpy")(function))
    finally:
        function.__qualname__ = name
