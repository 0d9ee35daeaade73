"""What this computer offers EStream Lab, and what is missing: findings that say how to mend them."""

import importlib.metadata
import importlib.util
import platform
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from estream_lab.errors import EStreamError
from estream_lab.machine import available_cpus, processor
from estream_lab.streaming.files import open_direct
from estream_lab.streaming.loader import verify_records
from estream_lab.streaming.store import Store

Status = Literal["ok", "warning", "missing", "error"]
LEAST_MEMORY_BYTES = 1 << 30  # the tour's kernel with its compiler and figures


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: what.
        status: ok, warning (works, but worse), missing, or error.
        detail: what was found. remedy: what to do, empty if nothing.
    """

    name: str
    status: Status
    detail: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """Plain types."""
        return asdict(self)


def examine(folder: Path, store: Path | None = None) -> list[Finding]:
    """All findings.

    Args:
        folder: where stores will live; its file system is tried for direct I/O.
        store: a store whose every record is verified.
    """
    checks: list[Callable[[], Finding]] = [
        _python,
        _processor,
        _compiler,
        _bf16,
        _int8,
        _memory,
        _widgets,
        lambda: _direct_io(folder),
    ]
    if store is not None:
        checks.append(lambda: _store(store))
    return [check() for check in checks]


def _python() -> Finding:
    return Finding("python", "ok", f"Python {platform.python_version()}, {sys.prefix}")


def _processor() -> Finding:
    from estream_lab.kernels.features import features

    present = features()
    known = [
        name
        for name in ("avx2", "fma", "avx512f", "avx512vnni", "avx512bf16", "avxvnni", "neon", "dotprod")
        if name in present
    ]
    detail = f"{processor()}, {available_cpus()} processors, {' '.join(known) or 'no vector features known'}"
    return Finding("processor", "ok", detail)


def _compiler() -> Finding:
    import numpy as np

    from estream_lab.kernels import host
    from estream_lab.kernels.compiled import UNCACHED

    x = np.eye(32, dtype=np.float32)
    if not np.array_equal(host.linear(x, host.pack_dense(x)), x):
        return Finding(
            "kernels", "error", "the compiled kernels give wrong results", "report this with --json's output"
        )
    if UNCACHED:
        return Finding(
            "kernels",
            "warning",
            "correct, but compiled anew by every command: no folder for compiled code can be written",
            "set NUMBA_CACHE_DIR to a folder of your own",
        )
    return Finding("kernels", "ok", f"compiled and correct on a small product, {host.threads()} threads")


def _bf16() -> Finding:
    """What the profile host-bf16 multiplies with here."""
    from estream_lab.kernels import bf16
    from estream_lab.kernels.bf16 import reference

    return _operator("bf16 kernels", bf16, reference)


def _int8() -> Finding:
    """What the profile host-int8 multiplies with here."""
    from estream_lab.kernels import int8
    from estream_lab.kernels.int8 import reference

    return _operator("int8 kernels", int8, reference)


def _operator(name: str, kernels: Any, reference: Any) -> Finding:
    """A package of kernels, tried on one small expert against its plain NumPy version."""
    import numpy as np

    from estream_lab.kernels.layout import pack_q4_32x32
    from estream_lab.kernels.quant import quantise_q4_0

    size, rng = 32, np.random.default_rng(0)
    weights = [quantise_q4_0(rng.standard_normal((size, size)).astype(np.float32)) for _ in range(3)]
    packed = [pack_q4_32x32(q, d) for q, d in weights]
    gate, up, down = (np.array([i * len(packed[0])]) for i in range(3))
    arena, scratch = np.concatenate(packed), kernels.Scratch(3, size, size, 1)
    x = rng.standard_normal((3, size)).astype(np.float32)
    routes = (np.array([0, 3]), np.arange(3, dtype=np.int32), np.ones(3, np.float32))
    got, expected = np.zeros_like(x), np.zeros_like(x)
    kernels.expert_bank(x, got, *routes, arena, gate, up, down, size, size, scratch)
    reference.expert_bank(x, expected, *routes, [(weights[0], weights[1], weights[2])])
    if got.tobytes() != expected.tobytes():
        return Finding(name, "error", f"wrong results by {kernels.description()}", "report this with --json's output")
    return Finding(name, "ok", kernels.description())


def _memory() -> Finding:
    free = psutil.virtual_memory().available
    detail = f"{free / 2**30:.1f} GiB available"
    if free < LEAST_MEMORY_BYTES:
        return Finding("memory", "warning", detail, "close other programs: the tour wants about 1 GiB")
    return Finding("memory", "ok", detail)


def _widgets() -> Finding:
    """Plotly's figures need its JupyterLab part and anywidget from this same environment."""
    absent = [
        name for name in ("jupyterlab", "ipywidgets", "anywidget", "plotly") if not importlib.util.find_spec(name)
    ]
    if absent:
        return Finding("widgets", "missing", f"not installed here: {', '.join(absent)}", "run make install")
    versions = ", ".join(f"{n} {importlib.metadata.version(n)}" for n in ("jupyterlab", "ipywidgets", "plotly"))
    return Finding("widgets", "ok", versions)


def _direct_io(folder: Path) -> Finding:
    try:
        with tempfile.NamedTemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
            file.flush()
            opened = open_direct(Path(file.name))
            opened.close()
    except (OSError, EStreamError) as error:
        return Finding("direct I/O", "error", f"can't write and read in {folder}: {error}", "choose another folder")
    if opened.direct:
        return Finding("direct I/O", "ok", f"reads in {folder} bypass the page cache")
    return Finding(
        "direct I/O", "warning", f"{opened.reason}: reads in {folder} are buffered and dropped", "use a disk"
    )


def _store(path: Path) -> Finding:
    try:
        store = Store(path)
        records = verify_records(store)
        store.verify_dense()
    except EStreamError as error:
        return Finding("store", "error", str(error), "give another path, or pack the checkpoint again")
    detail = f"{path}: all {records} records ({store.layout}) and every dense tensor ({store.dense_quant})"
    return Finding("store", "ok", f"{detail} have the right checksum")
