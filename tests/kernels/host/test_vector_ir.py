"""The micro-kernel is the same chain of roundings for every register block, vector width and processor."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from estream_lab.kernels.host import linear, pack_dense, reference, vector_ir
from estream_lab.kernels.host.vector_ir import address, tile_kernel

F32 = NDArray[np.float32]


def add_tile(rows: int) -> Callable[[F32, NDArray[np.int32], F32, F32], None]:
    kernel = tile_kernel(rows)

    @njit
    def run(x: F32, index: NDArray[np.int32], w: F32, c: F32) -> None:
        kernel(address(x), address(index), x.shape[1], address(w), x.shape[1], address(c), c.shape[1])

    return run


@pytest.mark.parametrize(("rows", "lanes"), [(1, 8), (2, 4), (3, 8), (3, 16), (8, 16)])
def test_every_register_block_equals_numpy(monkeypatch: pytest.MonkeyPatch, rows: int, lanes: int) -> None:
    monkeypatch.setattr(vector_ir, "_LANES", lanes)
    run = add_tile(rows)
    rng = np.random.default_rng(rows)
    for depth in (0, 1, 37):
        x, w = rng.standard_normal((9, depth)).astype(np.float32), rng.standard_normal((depth, 32)).astype(np.float32)
        index = rng.integers(0, 9, rows + 1).astype(np.int32)
        c = rng.standard_normal((rows + 1, 40)).astype(np.float32)
        expected = c.copy()
        for k in range(depth):
            row = x[index[:rows], k, None]
            expected[:rows, :32] = reference.fma(row, w[k], expected[:rows, :32])
        run(x, index, w, c)
        assert c.tobytes() == expected.tobytes()  # nothing beyond the tile is touched


PROGRAM = """
import sys
import numpy as np
from estream_lab.kernels.host import linear, pack_dense
x, w = (np.random.default_rng(seed).standard_normal((7, 50)).astype(np.float32) for seed in (0, 1))
sys.stdout.buffer.write(linear(x, pack_dense(w)).tobytes())
"""


def test_a_processor_without_fma_gets_the_same_bits(tmp_path: Path) -> None:
    here = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    got = subprocess.run(command, env={**os.environ, **here}, check=True, capture_output=True).stdout
    x, w = (np.random.default_rng(seed).standard_normal((7, 50)).astype(np.float32) for seed in (0, 1))
    assert got == linear(x, pack_dense(w)).tobytes()
