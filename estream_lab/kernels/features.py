"""What the processor that numba compiles for has: asked before any instruction of a variant is emitted."""

from __future__ import annotations

import llvmlite.binding as llvm
from numba import config


def features() -> frozenset[str]:
    """By LLVM's names: the processor's own features unless numba's environment variables say otherwise.

    NUMBA_CPU_NAME without NUMBA_CPU_FEATURES counts as none: LLVM doesn't tell what a processor's name implies.
    """
    if config.CPU_NAME is not None or config.CPU_FEATURES is not None:
        return frozenset(name[1:] for name in (config.CPU_FEATURES or "").split(",") if name.startswith("+"))
    found = {name for name, present in llvm.get_host_cpu_features().items() if present}
    if not config.ENABLE_AVX:
        found = {name for name in found if not name.startswith("avx")}
    if llvm.get_host_cpu_name().startswith("apple-m"):
        found |= {"neon", "dotprod"}  # every one has them, but macOS gives LLVM no list
    return frozenset(found)
