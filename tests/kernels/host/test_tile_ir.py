"""The micro-kernel is the same chain of roundings for every number of rows, vector width and kind of weights."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from estream_lab.kernels.host import reference, vector_ir
from estream_lab.kernels.host.bf16 import narrow, widen
from estream_lab.kernels.host.tile_ir import rows_kernel
from estream_lab.kernels.host.vector_ir import address

F32 = NDArray[np.float32]
Weights = Literal["fp32", "bf16"]


def add_rows(weights: Weights) -> Callable[[F32, NDArray[np.int32], int, NDArray[np.uint8], F32], None]:
    kernel = rows_kernel(weights)

    @njit
    def run(x: F32, index: NDArray[np.int32], rows: int, w: NDArray[np.uint8], c: F32) -> None:
        kernel(address(x), address(index), rows, x.shape[1], address(w), x.shape[1], address(c), c.shape[1])

    return run


def as_held(w: F32, weights: Weights) -> NDArray[np.uint8]:
    """(K, 32) numbers as the kernel reads them."""
    if weights == "bf16":
        w = np.stack([narrow(w[:, :16]), narrow(w[:, 16:])], axis=-1)  # column j beside column 16 + j
    return np.append(w.reshape(-1).view(np.uint8), np.zeros(4, np.uint8))  # depth may be 0


@pytest.mark.parametrize("weights", ["fp32", "bf16"])
@pytest.mark.parametrize(("largest", "lanes"), [(3, 4), (3, 8), (8, 16)])
def test_every_register_block_equals_numpy(
    monkeypatch: pytest.MonkeyPatch, largest: int, lanes: int, weights: Weights
) -> None:
    monkeypatch.setattr(vector_ir, "LANES", lanes)
    monkeypatch.setattr(vector_ir, "MAX_ROWS", largest)
    run = add_rows(weights)
    rng = np.random.default_rng(lanes)
    for rows in (*range(2 * largest + 2), 50):
        for depth in (0, 1, 37):
            x, w = rng.standard_normal((9, depth)).astype(np.float32), rng.standard_normal((depth, 32))
            w = widen(narrow(w), np.empty(w.shape, np.float32)) if weights == "bf16" else w.astype(np.float32)
            index = rng.integers(0, 9, rows + 1).astype(np.int32)
            c = rng.standard_normal((rows + 1, 40)).astype(np.float32)
            expected = c.copy()
            for k in range(depth):
                expected[:rows, :32] = reference.fma(x[index[:rows], k, None], w[k], expected[:rows, :32])
            run(x, index, rows, as_held(w, weights), c)
            assert c.tobytes() == expected.tobytes()  # nothing beyond the tile is touched
