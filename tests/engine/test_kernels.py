"""No request is timed while it compiles."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from estream_lab.engine import PrefillEngine, kernels
from estream_lab.errors import EStreamError
from tests.stores import dense_store

CODE = """
import importlib, pkgutil, sys
from estream_lab.kernels import host, int8
from estream_lab.engine import PrefillEngine
from numba.core.registry import CPUDispatcher

def signatures():
    names = [f"{room.__name__}.{m.name}" for room in (host, int8) for m in pkgutil.iter_modules(room.__path__)]
    names.append("estream_lab.experts.binding")
    modules = [importlib.import_module(name) for name in names]
    found = {id(v): v for m in modules for v in vars(m).values() if isinstance(v, CPUDispatcher)}
    return {f"{d.py_func.__module__}.{d.py_func.__name__}": len(d.signatures) for d in found.values()}

before = signatures()
with PrefillEngine.open(sys.argv[1], group_size=3, banks=2) as engine:
    opened = signatures()
    engine.prefill([1, 2, 3, 4, 5], positions="all")
    engine.prefill(list(range(70)), want="logprobs")
    assert signatures() == opened, (opened, signatures())
assert not any(before.values()) and sum(opened.values()) >= 7, (before, opened)
"""


@pytest.mark.parametrize("kind", ["f32", "bf16", "q8_0", "q4_0"])
def test_everything_is_compiled_when_an_engine_is_open(tmp_path: Path, kind: str) -> None:
    path = str(dense_store(tmp_path, kind))
    done = subprocess.run([sys.executable, "-c", CODE, path], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


EXACT = """
import sys
from numba.core import event
from estream_lab.engine import PrefillEngine

for profile in ("ieee_fp32", "hmx_v73_g4", "hmx_v75_g8"):
    with PrefillEngine.open(sys.argv[1], executor="exact", profile=profile, group_size=3, banks=2) as engine:
        with event.install_recorder("numba:compile") as compiled:
            engine.prefill([1, 2, 3, 4, 5], positions="all")
            engine.prefill(list(range(70)), want="logprobs")
        assert not compiled.buffer, (profile, compiled.buffer)
"""


def test_the_exact_executor_is_compiled_when_its_engine_is_open(store_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", EXACT, str(store_path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_loading_shows_a_bar_to_who_wants_one(
    store_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernels, "DELAY_SECONDS", 0)
    for progress in (False, True):
        monkeypatch.setattr(kernels, "_loaded", set())
        with PrefillEngine.open(store_path, group_size=3, progress=progress):
            assert ("loading kernels:   0%" in capfd.readouterr().err) == progress
        with PrefillEngine.open(store_path, group_size=3, progress=progress):
            assert capfd.readouterr().err == ""  # they are there


APART = """
import sys
from numba.core import event
from estream_lab.engine import PrefillEngine
from estream_lab.engine.kernels import compile_apart

with event.install_recorder("numba:compile") as compiled:
    compile_apart(sys.argv[1])
    PrefillEngine.open(sys.argv[1], group_size=3).close()
assert not compiled.buffer
"""


def test_kernels_that_were_compiled_apart_are_not_compiled_here(store_path: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", APART, str(store_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_process_that_has_kernels_starts_no_other(store_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PrefillEngine.open(store_path, group_size=3).close()
    monkeypatch.setattr(kernels.subprocess, "run", None)
    kernels.compile_apart(store_path)


def test_a_process_that_fails_to_compile_is_told(
    store_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_loaded", set())
    (tmp_path / "tqdm.py").write_text("raise RuntimeError('not the tqdm that is installed')")
    monkeypatch.chdir(tmp_path)
    kernels.compile_apart(store_path)  # what lies in the working folder is not imported
    for code, why in (("raise MemoryError('no room')", "MemoryError: no room"), ("exit(3)", "it said nothing")):
        monkeypatch.setattr(kernels, "COMPILE", code)
        with pytest.raises(
            EStreamError, match=rf"compiles kernels for .* failed with status \d \({why}\): estream doc"
        ):
            kernels.compile_apart(store_path)
    with pytest.raises(EStreamError, match="no such folder"):
        kernels.compile_apart(tmp_path / "none.estream")
