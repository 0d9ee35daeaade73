"""The decorator of every function that numba compiles here."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import ParamSpec, TypeVar, cast

from numba import config, njit

P = ParamSpec("P")
R = TypeVar("R")


@lru_cache(maxsize=8)
def _fingerprint(folder: Path) -> str:
    """Names the sources of a package and of those whose are compiled into it, and the setting that changes code."""
    digest = hashlib.blake2b(digest_size=6)
    here = Path(__file__).parent
    folders = (folder, here, here / "host", here / "packed")
    for path in sorted({path for each in folders for path in each.glob("*.py")}):
        digest.update(path.read_bytes())
    digest.update(str(config.BOUNDSCHECK).encode())
    return digest.hexdigest()


UNCACHED: list[str] = []
"""Functions that every process compiles anew, because no folder for the cache can be written."""


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile without the interpreter lock, division checks or reordering of sums; cached on disk where that can be.

    Numba trusts a cached function while its own file is unchanged, even if the functions and intrinsics that were
    compiled into it come from files that have changed. So the fingerprint of its package's files is made part of the
    name under which it is cached; a package compiles in nothing from others but from `kernels`, `kernels.host` and
    `kernels.packed`.
    """
    name = function.__qualname__
    function.__qualname__ = f"{name}_{_fingerprint(Path(inspect.getfile(function)).parent)}"
    try:
        return cast("Callable[P, R]", njit(nogil=True, cache=True, error_model="numpy")(function))
    except RuntimeError:  # numba's "no locator available": neither this folder nor the user's own can be written
        UNCACHED.append(name)
        return cast("Callable[P, R]", njit(nogil=True, error_model="numpy")(function))
    finally:
        function.__qualname__ = name
