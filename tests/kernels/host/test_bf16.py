"""bf16 numbers as bits."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.kernels.host.bf16 import all_finite_bf16, narrow, widen


@given(st.lists(st.integers(0, 2**16 - 1), min_size=1))
def test_a_bf16_number_is_the_upper_half_of_the_float32_that_equals_it(bits: list[int]) -> None:
    held = np.array(bits, np.uint16)
    wide = widen(held, np.empty(len(held), np.float32))
    assert wide.view(np.uint32).tolist() == [b << 16 for b in bits]
    assert np.array_equal(narrow(wide), held)
    assert all_finite_bf16(held) == np.isfinite(wide).all()


def test_other_numbers_lose_their_lower_halves() -> None:
    wide = np.array([1.0, -1.00390625, 3.0e38], np.float32)
    assert (widen(narrow(wide), np.empty(3, np.float32)).view(np.uint32) == wide.view(np.uint32) & 0xFFFF0000).all()
