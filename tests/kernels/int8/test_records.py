"""Activations are quantised as NumPy does it, bit for bit, and records hold what products need."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numba import njit
from numpy.typing import NDArray

from estream_lab.kernels.host.vector_ir import address
from estream_lab.kernels.int8 import reference
from estream_lab.kernels.int8.dot import DOTS
from estream_lab.kernels.int8.records import CORRECTION, RECORD_BYTES, SCALE, SMALLEST, quantiser

F32 = NDArray[np.float32]
Quantise = Callable[[F32, NDArray[np.uint8]], None]


def compile_quantiser(name: str) -> Quantise:
    quantise = quantiser(DOTS[name])

    @njit
    def run(x: F32, records: NDArray[np.uint8]) -> None:
        for i in range(len(records)):
            quantise(address(x) + 128 * i, address(records) + 40 * i)

    return run


PAIRS, WHOLE = compile_quantiser("portable"), compile_quantiser("neon-dot")


def records_of(x: F32, run: Quantise = PAIRS) -> tuple[NDArray[np.int8], F32, NDArray[np.uint8]]:
    """q (n, 32), scales (n,) and the records (n, 40) of x (n, 32)."""
    records = np.full((len(x), RECORD_BYTES), 0xEE, np.uint8)
    run(np.ascontiguousarray(x), records)
    return records[:, :32].view(np.int8), records[:, SCALE:].copy().view(np.float32)[:, 0], records


BLOCK = hnp.arrays(np.float32, (1, 32), elements=st.floats(width=32, allow_nan=False, allow_infinity=False))


@settings(max_examples=100)
@given(BLOCK, st.sampled_from([PAIRS, WHOLE]))
def test_equals_numpy_bit_for_bit(x: F32, run: Quantise) -> None:
    q, scale, _ = records_of(x, run)
    expected, expected_scale = reference.quantise(x)
    assert q.tobytes() == expected.tobytes()
    assert scale.tobytes() == expected_scale[:, 0].tobytes()


def test_many_blocks_equal_numpy_and_stay_within_half_a_step() -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((5000, 32)) * np.exp(rng.uniform(-80, 80, (5000, 1)))).astype(np.float32)
    x[::7] = np.round(x[::7])  # ties and zeros
    q, scale, _ = records_of(x)
    expected, expected_scale = reference.quantise(x)
    assert q.tobytes() == expected.tobytes()
    assert scale.tobytes() == expected_scale[:, 0].tobytes()
    seen = np.abs(x).max(axis=1) >= SMALLEST
    assert seen.mean() > 0.5
    assert (np.abs(q[seen]).max(axis=1) == 127).all()
    x64, q64 = x[seen].astype(np.float64), q[seen].astype(np.float64)
    step = np.abs(x64).max(axis=1, keepdims=True) / 127
    assert (np.abs(x64 - q64 * step) <= 0.5001 * step).all()
    best = (x64 * q64).sum(axis=1) / (q64 * q64).sum(axis=1)  # of least squares
    assert np.abs(scale[seen] / best - 1).max() < 4e-7
    assert not np.allclose(best, step[:, 0], rtol=1e-4)  # the largest number alone says another scale


def test_ties_are_rounded_to_even() -> None:
    x = np.zeros((1, 32), np.float32)
    x[0, :6] = [127, 0.5, 1.5, 2.5, -0.5, -1.5]
    q, scale, _ = records_of(x)
    assert q[0, :6].tolist() == [127, 0, 2, 2, 0, -2]
    assert scale[0] == np.float32(127 * 127 + 3 + 5 + 3) / np.float32(127 * 127 + 3 * 4)  # sums of y q, and of q q


@pytest.mark.parametrize("largest", [0.0, 1e-40, float(np.nextafter(np.float32(SMALLEST), np.float32(0)))])
def test_a_block_of_nearly_nothing_is_zero(largest: float) -> None:
    x = np.full((1, 32), largest, np.float32)
    q, scale, _ = records_of(x)
    assert not q.any() and scale[0] == 0
    assert reference.quantise(x)[1][0, 0] == 0


def test_the_smallest_and_the_largest_block_have_127() -> None:
    x = np.array([[SMALLEST] * 32, [np.finfo(np.float32).max] * 32], np.float32)
    q, scale, _ = records_of(x)
    assert (q == 127).all()
    assert np.isfinite(scale).all() and (scale > 0).all()


@pytest.mark.parametrize("wrong", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 17, 31])
def test_a_block_that_is_not_finite_has_no_scale(wrong: float, place: int) -> None:
    x = np.ones((2, 32), np.float32)
    x[0, place] = wrong
    _, scale, _ = records_of(x)
    assert np.isnan(scale[0]) and scale[1] == np.float32(1) / np.float32(127)
    assert np.isnan(reference.quantise(x)[1][0, 0])


@pytest.mark.parametrize("sign", [1, -1])
def test_corrections_are_less_eight_times_the_sums(sign: int) -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((200, 32)).astype(np.float32)
    x[0] = sign  # the largest sums
    q, _, pairs = records_of(x)
    _, _, whole = records_of(x, WHOLE)
    sums = q.reshape(-1, 8, 2, 2).astype(np.int64).sum(axis=(1, 3))
    assert np.array_equal(pairs[:, CORRECTION:SCALE].copy().view(np.int16), -8 * sums)
    assert np.array_equal(whole[:, CORRECTION:SCALE].copy().view(np.int32)[:, 0], -8 * sums.sum(axis=1))
    assert np.array_equal(np.delete(pairs, [32, 33, 34, 35], 1), np.delete(whole, [32, 33, 34, 35], 1))
