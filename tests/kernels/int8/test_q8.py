"""Q8_0 weights: half a step of error at most, refused where fp16 ends, and packed as the layout says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.kernels.int8.q8 import dequantise_q8_0, pack_q8_32x32, quantise_q8_0, unpack_q8_32x32

F32 = NDArray[np.float32]
LIMIT = 127 * 65504.0
BLOCK = hnp.arrays(np.float32, (2, 64), elements=st.floats(-LIMIT, LIMIT, width=32))


@settings(max_examples=100)
@given(BLOCK)
def test_weights_are_within_half_a_step_and_the_rounding_of_the_scale(w: F32) -> None:
    q, d = quantise_q8_0(w)
    assert np.abs(q.astype(int)).max() <= 127
    largest = np.abs(w.reshape(2, 2, 32)).max(axis=-1).astype(np.float64)
    half_step = 0.5001 * largest / 127
    scale = np.maximum(largest * 2.0**-11, 127 * 2.0**-25)  # of 127 steps of a normal scale, or a subnormal one
    error = np.abs(dequantise_q8_0(q, d).astype(np.float64) - w).reshape(2, 2, 32).max(axis=-1)
    assert (error <= half_step + 1.0001 * scale).all()


def test_ties_are_rounded_to_even_and_the_largest_weight_is_127() -> None:
    w = np.zeros((1, 32), np.float32)
    w[0, :6] = [-127, 0.5, 1.5, 2.5, -0.5, -1.5]
    q, d = quantise_q8_0(w)
    assert d.tolist() == [[1.0]]
    assert q[0, :7].tolist() == [-127, 0, 2, 2, 0, -2, 0]


def test_a_row_does_not_depend_on_the_rows_around_it() -> None:
    w = np.random.default_rng(0).standard_normal((600, 64)).astype(np.float32)
    q, d = quantise_q8_0(w)
    for row in (0, 255, 256, 599):
        alone = quantise_q8_0(w[row : row + 1])
        assert np.array_equal(alone[0][0], q[row]) and np.array_equal(alone[1][0], d[row])


@pytest.mark.parametrize("largest", [0.0, 1e-40, 1e-7])
def test_a_block_whose_scale_vanishes_is_zero(largest: float) -> None:
    q, d = quantise_q8_0(np.full((1, 32), largest, np.float32))
    assert not q.any() and not d.any()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 127 * 65520.0])
def test_refuses_what_no_scale_can_hold(wrong: float) -> None:
    w = np.ones((303, 96), np.float32)  # more rows than are quantised at once
    w[302, 70] = wrong
    with pytest.raises(EStreamError, match="row 302, columns 64 to 95 reach .* 127 times 65504: mend"):
        quantise_q8_0(w)


def test_refuses_parts_of_a_block() -> None:
    with pytest.raises(ValueError, match=r"K a multiple of 32, not \(3, 33\)"):
        quantise_q8_0(np.ones((3, 33), np.float32))
    with pytest.raises(ValueError, match="no blocks of 32 x 32"):
        pack_q8_32x32(np.ones((33, 32), np.int8), np.ones((33, 1), np.float16))
    with pytest.raises(ValueError, match="no blocks of 32 x 32"):
        pack_q8_32x32(np.ones((32, 64), np.int8), np.ones((32, 1), np.float16))


def test_every_weight_and_scale_lies_where_the_layout_says() -> None:
    rng = np.random.default_rng(0)
    q = rng.integers(-128, 128, (64, 96)).astype(np.int8)
    d = rng.standard_normal((64, 3)).astype(np.float16)
    packed = pack_q8_32x32(q, d)
    flat = packed.reshape(-1)
    for n in range(64):
        for k in range(96):
            block = (n // 32 * 3 + k // 32) * 1088
            i, j = k % 32, n % 32
            assert flat[block + 128 * (i // 4) + 4 * j + i % 4].view(np.int8) == q[n, k]
            assert flat[block + 1024 + 2 * j : block + 1026 + 2 * j].tobytes() == d[n, k // 32].tobytes()
    unpacked = unpack_q8_32x32(packed)
    assert np.array_equal(unpacked[0], q) and np.array_equal(unpacked[1], d)
