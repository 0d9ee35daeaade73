"""Kernels compile once, and cached machine code follows its sources."""

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import caching
from numba.core.dispatcher import Dispatcher

import estream_lab
from estream_lab.kernels import bf16, compiled, int8
from estream_lab.kernels.host import (
    Scratch,
    all_finite,
    attention,
    cache_shapes,
    expert_bank,
    linear,
    pack_bf16,
    pack_dense,
    remember,
    rms_norm,
    rotate_half,
)
from estream_lab.kernels.layout import projection_bytes
from estream_lab.kernels.packed.scratch import ROW_BLOCK

MODULES = (
    *(f"host.{name}" for name in ("attention", "cache", "dense", "expert", "exponential")),
    *(f"host.{name}" for name in ("finite", "norm", "tile")),
    *(f"packed.{name}" for name in ("expert", "lane", "scatter")),
    *(f"int8.{name}" for name in ("dense", "rows", "strip", "strip_q8")),
    "bf16.strip",
)


def run_every_kernel() -> None:
    one = np.ones((1, 32), np.float32)
    linear(one, pack_dense(one))
    linear(one, pack_bf16(np.zeros((1, 32), np.uint16)))
    for pack in (int8.pack_q4, int8.pack_q8):
        pack(one).linear(one)
        pack(one).rows(np.zeros(1, np.int32), np.empty((1, 32), np.float32))
    all_finite(rms_norm(one, one[0], 1e-5))
    rotate_half(one.reshape(1, 1, 32).copy(), one[:, :16], one[:, :16])
    keys, values = (np.zeros(shape, np.float32) for shape in cache_shapes(1, 32, 1))
    remember(one.reshape(1, 1, 32), one.reshape(1, 1, 32), 0, keys, values)
    attention(one.reshape(1, 1, 32), keys, values, 0, 1.0)
    arena, zero = np.zeros(projection_bytes("q4-32x32", 32, 32), np.uint8), np.zeros(1, np.int64)
    routes = (np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, np.float32))
    expert_bank(one, one.copy(), *routes, arena, zero, zero, zero, 32, 32, "q4-32x32", Scratch(1, 32, 32, 1))
    for lane in (int8, bf16):
        lane.expert_bank(one, one.copy(), *routes, arena, zero, zero, zero, 32, 32, lane.Scratch(1, 32, 32, 1))


def test_kernels_compile_once_for_the_inputs_of_an_engine(tmp_path: Path) -> None:
    """Read-only and writable, 0-d and many: another version of a kernel costs seconds at the user's first prompt.

    In a process of its own, since other tests call kernels in ways that engines don't, and without a cache: where an
    outer kernel comes from there, nobody sees what its inner ones were compiled for.
    """
    code = f"from {__name__} import check_versions; check_versions()"
    root = Path(__file__).parents[2]
    cold = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=root, env=cold, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def check_versions() -> None:
    run_every_kernel()
    one = np.ones((3, 32), np.float32)
    one.flags.writeable = False
    linear(one, pack_dense(one))
    rms_norm(one, one[0], 1)
    modules = [importlib.import_module(f"estream_lab.kernels.{name}") for name in MODULES]
    kernels = {f for m in modules for f in vars(m).values() if isinstance(f, Dispatcher)}
    if int8.strip.PACKED_ROWS == ROW_BLOCK:  # this processor never wants panels
        int8.strip.lane_of(int8.strip.FEW_ROWS)
    versions = {kernel: len(kernel.signatures) for kernel in kernels}
    assert set(versions.values()) == {1}, {k.py_func.__name__: k.signatures for k, n in versions.items() if n != 1}
    assert {kernel.py_func.__name__ for kernel, n in versions.items() if n} >= {
        "_all_finite", "_apart", "_attention", "_down", "_gate_up", "_linear", "_make_records", "_multiply", "_octets",
        "_packed", "_panel", "_pick_rows", "_quantise", "_remember", "_rms_norm", "_rotate_half", "quantise",
        "round_records",
    }  # fmt: skip


def test_without_a_place_for_the_cache_kernels_are_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])  # as where nothing can be written
    monkeypatch.setattr(compiled, "UNCACHED", [])

    def twice(x: int) -> int:
        return 2 * x

    name = twice.__qualname__
    assert compiled.compiled(twice)(21) == 42
    assert [name] == compiled.UNCACHED and twice.__qualname__ == name


PROGRAM = """
import numpy as np
from estream_lab.kernels.host.exponential import silu
print(silu(np.float32(1)), sum(silu.stats.cache_hits.values()))
"""


def test_a_changed_source_is_never_served_from_the_cache(tmp_path: Path) -> None:
    package = tmp_path / "estream_lab"
    shutil.copytree(Path(estream_lab.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def run() -> list[str]:
        command = [sys.executable, "-c", PROGRAM]
        return subprocess.run(
            command, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.split()

    before, hits = run()
    assert before.startswith("0.73105")  # 1 / (1 + exp(-1))
    assert hits == "0"
    assert run() == [before, "1"]
    # The file of an intrinsic, which is compiled into exp32, which is compiled into silu.
    source = package / "kernels" / "host" / "vector_ir.py"
    text = source.read_text()
    changed = text.replace("return fused(builder, *arguments)", "return arguments[0]")
    assert changed != text
    source.write_text(changed)
    after, hits = run()
    assert after != before
    assert hits == "0"


OF_ANOTHER_ROOM = """
import sys
from importlib import import_module
module, name, *arguments = sys.argv[1:]
kernel = getattr(import_module(module), name)
print(kernel(*map(int, arguments)), sum(kernel.stats.cache_hits.values()))
"""


@pytest.mark.parametrize(
    ("kernel", "source"),
    [
        (["estream_lab.kernels.packed.lane", "cut", "7", "2"], "host/vector_ir.py"),
        (["estream_lab.kernels.int8.strip", "quantise", "0", "0", "0", "0"], "vectors.py"),
        (["estream_lab.kernels.int8.strip", "quantise", "0", "0", "0", "0"], "packed/product.py"),
        (["estream_lab.kernels.bf16.strip", "round_records", "0", "0", "0", "0"], "packed/product.py"),
    ],
)
def test_a_source_of_another_room_counts_where_it_is_compiled_in(
    tmp_path: Path, kernel: list[str], source: str
) -> None:
    """Code of the rooms that others share is compiled into theirs."""
    package = tmp_path / "estream_lab"
    shutil.copytree(Path(estream_lab.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}

    def hits() -> str:
        command = [sys.executable, "-c", OF_ANOTHER_ROOM, *kernel]
        done = subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.split()[-1]

    assert (hits(), hits()) == ("0", "1")
    changed = package / "kernels" / source
    changed.write_text(changed.read_text() + "\n")
    assert hits() == "0"


EXACT = """
import numpy as np
from estream_lab.kernels.exact import matmul
one = np.ones((32, 32), np.uint16)
for profile in ("ieee_fp32", "hmx_v73_g4", "hmx_v75_g8"):
    matmul(one, one, profile)
"""


def test_a_second_process_finds_every_exact_kernel_in_the_cache(tmp_path: Path) -> None:
    """A kernel that closed over another one would be compiled anew, and kept once more, by every process."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    kept = []
    for _ in range(2):
        subprocess.run([sys.executable, "-c", EXACT], env=environment, check=True, capture_output=True)
        kept.append(sorted(path.name for path in tmp_path.rglob("*.nbc")))
    assert kept[0] == kept[1] and len(kept[0]) > 10
