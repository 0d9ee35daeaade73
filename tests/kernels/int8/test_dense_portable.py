"""Projections give the same bits where only plain instructions are left, by compiled code that is cut otherwise."""

import os
import subprocess
import sys
from pathlib import Path

from tests.kernels.int8.test_dense import FORMATS, problem

ROOT = Path(__file__).parents[3]

PROGRAM = """
import sys
from estream_lab.kernels.int8 import variant
from tests.kernels.int8.test_dense import FORMATS, problem
assert variant().name == "portable", variant()
x, w = problem(7, 45, 288, 70)
for kind in FORMATS.values():
    sys.stdout.buffer.write(kind.pack(w).linear(x).tobytes())
"""


def test_a_processor_without_any_dot_product_gets_the_same_bits(tmp_path: Path) -> None:
    here = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    got = subprocess.run(command, cwd=ROOT, env={**os.environ, **here}, check=True, capture_output=True).stdout
    x, w = problem(7, 45, 288, 70)
    assert got == b"".join(kind.pack(w).linear(x).tobytes() for kind in FORMATS.values())
