"""The micro-kernel is the same chain of roundings for every register block, vector width and processor."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from estream_lab.kernels.host import linear, pack_dense, reference, vector_ir
from estream_lab.kernels.host.vector_ir import FOLD_LANES, address, largest_of, sum_of, take_share, tile_kernel

F32 = NDArray[np.float32]


def add_tile(rows: int) -> Callable[[F32, NDArray[np.int32], F32, F32], None]:
    kernel = tile_kernel(rows)

    @njit
    def run(x: F32, index: NDArray[np.int32], w: F32, c: F32) -> None:
        kernel(address(x), address(index), x.shape[1], address(w), x.shape[1], address(c), c.shape[1])

    return run


@pytest.mark.parametrize(("rows", "lanes"), [(1, 8), (2, 4), (3, 8), (3, 16), (8, 16)])
def test_every_register_block_equals_numpy(monkeypatch: pytest.MonkeyPatch, rows: int, lanes: int) -> None:
    monkeypatch.setattr(vector_ir, "LANES", lanes)
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


@pytest.mark.parametrize("count", [8, 64])
def test_folds_keep_their_order_and_nan(count: int) -> None:
    total, most = sum_of(count), largest_of(count)

    @njit
    def run(x: F32) -> tuple[float, float]:
        return total(address(x)), most(address(x))

    x = (np.random.default_rng(count).standard_normal(count) * 1e3).astype(np.float32)
    lanes = np.zeros(FOLD_LANES, np.float32)
    for part in x.reshape(-1, FOLD_LANES):
        lanes += part
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    assert run(x) == (lanes[0], x.max())
    for at in range(count):
        with_nan = x.copy()
        with_nan[at] = np.nan
        assert np.isnan(run(with_nan)).all()


def test_a_counter_gives_every_number_once() -> None:
    @njit(nogil=True)
    def take(counter: int, most: int) -> tuple[int, int]:
        count = total = 0
        share = take_share(counter)
        while share < most:
            count, total = count + 1, total + share
            share = take_share(counter)
        return count, total

    take(np.zeros(1, np.int64).ctypes.data, 1)  # compiled before they begin
    counter, most, both = np.zeros(1, np.int64), 5_000_000, threading.Barrier(2, timeout=60)

    def taker() -> None:
        both.wait()
        taken.append(take(counter.ctypes.data, most))

    taken: list[tuple[int, int]] = []
    threads = [threading.Thread(target=taker) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.sum(taken, axis=0).tolist() == [most, most * (most - 1) // 2]


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
