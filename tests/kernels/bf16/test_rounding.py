"""Activations are rounded as NumPy does it, bit for bit, and records hold them in the variant's order."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numba import njit
from numpy.typing import NDArray

from estream_lab.kernels.bf16 import reference
from estream_lab.kernels.bf16.dot import CHAIN, DOTS
from estream_lab.kernels.bf16.rounding import SMALLEST, rounder
from estream_lab.kernels.host.vector_ir import address

F32 = NDArray[np.float32]


def compile_rounder(name: str) -> Callable[[F32], F32]:
    """A function that takes x (n, 32) to its records and reads them back, as (n, 32) float32 in the inputs' order."""
    dot = DOTS[name]
    intrinsic = rounder(dot)

    @njit
    def run(x: F32, records: NDArray[np.uint8]) -> None:
        for i in range(len(x)):
            intrinsic(address(x) + 128 * i, address(records) + records.shape[1] * i)

    def there_and_back(x: F32) -> F32:
        records = np.full((len(x), dot.record_bytes), 0xEE, np.uint8)
        run(np.ascontiguousarray(x), records)
        if dot.record_bytes == 64:
            found = (records.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            found = records.view(np.float32)
        out = np.empty((len(x), 4, 8), np.float32)
        out[:, :, list(dot.order)] = found.reshape(len(x), 4, 8)
        return out.reshape(len(x), 32)

    return there_and_back


HALVES, WHOLE = compile_rounder("avx512-bf16"), compile_rounder("portable")


@settings(max_examples=100)
@given(hnp.arrays(np.float32, (1, 32), elements=st.floats(width=32, allow_nan=False)), st.sampled_from([HALVES, WHOLE]))
def test_equals_numpy_bit_for_bit(x: F32, run: Callable[[F32], F32]) -> None:
    assert run(x).tobytes() == reference.rounded(x).tobytes()


@pytest.mark.parametrize("run", [HALVES, WHOLE])
def test_is_the_nearest_number_of_eight_bits_and_ties_go_to_the_even_one(run: Callable[[F32], F32]) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((5000, 32)) * np.exp(rng.uniform(-70, 70, (5000, 1)))).astype(np.float32)
    got = run(x)
    assert got.tobytes() == reference.rounded(x).tobytes()
    step = 2.0 ** (np.floor(np.log2(np.abs(x.astype(float)))) - 7)
    assert (np.abs(got - x.astype(float)) <= step / 2).all()
    ties = np.resize(np.array([1 + 1 / 256, 1 + 3 / 256, -1 - 1 / 256, 255.5], np.float32), (1, 32))
    assert run(ties)[0, :4].tolist() == [1, 1 + 4 / 256, -1, 256]


@pytest.mark.parametrize("run", [HALVES, WHOLE])
def test_the_smallest_and_the_largest_numbers(run: Callable[[F32], F32]) -> None:
    below = np.nextafter(np.float32(SMALLEST), np.float32(0))
    most = np.float32(2.0**127 * (2 - 2.0**-7))
    x = np.resize(np.array([SMALLEST, -SMALLEST, below, -0.0, most, 3.4e38, np.inf, -np.inf], np.float32), (1, 32))
    expected = np.array([SMALLEST, -SMALLEST, 0, 0, most, np.inf, np.inf, -np.inf], np.float32)
    assert run(x)[0, :8].tobytes() == expected.tobytes()
    nans = np.array([0x7FC00000, 0x7FFFFFFF, 0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(run(np.resize(nans, (1, 32)))).all()


def test_no_sum_is_subnormal() -> None:
    """Activations are multiples of 2^-126, so products with integers are, and roundings keep it so."""
    assert np.finfo(np.float32).tiny == SMALLEST * 2.0**-7


@pytest.mark.parametrize("name", DOTS)
def test_every_order_takes_each_input_of_eight_once(name: str) -> None:
    order = DOTS[name].order
    assert sorted(order) == list(range(8))
    if DOTS[name].record_bytes == 64:  # the second of a pair is added first
        order = tuple(order[i ^ 1] for i in range(8))
    assert order == CHAIN
