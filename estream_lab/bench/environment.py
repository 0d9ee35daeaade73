"""What a peer's process inherits: this one's environment without the variables that steer libraries."""

import os
from collections.abc import Mapping
from typing import Any

STEERING = (
    "ATEN_", "DNNL_", "GGML_", "GLIBC_TUNABLES", "GOMP_", "KMP_", "KT_", "LD_PRELOAD", "LLAMA_", "MALLOC_", "MKL_",
    "OMP_", "ONEDNN_", "OPENBLAS_", "PYTHON", "PYTORCH_", "TORCH_",
)  # fmt: skip
"""How names begin of variables that choose threads, kernels, allocators or Python's own ways: one that happens to be
set here would give a peer fewer threads than it is asked for, or another kernel."""

OURS = ("NUMBA_", "MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
"""Those that act on this process; they stay, and are told."""

KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 25), "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
"""Set for every peer: memory that is freed stays with the process, so that a call that allocates its temporaries anew
doesn't pay for pages."""


def peers_environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a peer's process; `given` is by default this process's."""
    given = os.environ if given is None else given
    return {name: value for name, value in given.items() if not name.startswith(STEERING)} | KEEP_MEMORY


def told(given: Mapping[str, str] | None = None) -> dict[str, Any]:
    """For a result: what was taken from peers, what was set for them, and what acts on this process."""
    given = os.environ if given is None else given
    return {
        "cleared": {name: value for name, value in sorted(given.items()) if name.startswith(STEERING)},
        "set": dict(KEEP_MEMORY),
        "ours": {name: value for name, value in sorted(given.items()) if name.startswith(OURS)},
    }
