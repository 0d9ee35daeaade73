"""Folds and counters; and the kernels made of these words give the same bits on every processor."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from estream_lab.kernels.host import linear, pack_bf16, pack_dense
from estream_lab.kernels.host.bf16 import narrow
from estream_lab.kernels.host.vector_ir import FOLD_LANES, address, largest_of, sum_of, take_share

F32 = NDArray[np.float32]


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
from estream_lab.kernels.host import linear, pack_bf16, pack_dense
from estream_lab.kernels.host.bf16 import narrow
x, w = (np.random.default_rng(seed).standard_normal((7, 50)).astype(np.float32) for seed in (0, 1))
sys.stdout.buffer.write(linear(x, pack_dense(w)).tobytes() + linear(x, pack_bf16(narrow(w))).tobytes())
"""


def test_a_processor_without_fma_gets_the_same_bits(tmp_path: Path) -> None:
    here = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    got = subprocess.run(command, env={**os.environ, **here}, check=True, capture_output=True).stdout
    x, w = (np.random.default_rng(seed).standard_normal((7, 50)).astype(np.float32) for seed in (0, 1))
    assert got == linear(x, pack_dense(w)).tobytes() + linear(x, pack_bf16(narrow(w))).tobytes()
