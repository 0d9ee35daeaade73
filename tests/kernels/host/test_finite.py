"""NaN and infinity are found wherever they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from estream_lab.kernels.host import all_finite


@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=3, min_side=0, max_side=9)))
def test_equals_numpy(x: np.ndarray) -> None:
    assert all_finite(x) == np.isfinite(x).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@given(st.integers(1, 100), st.data())
def test_one_number_is_enough(value: float, length: int, data: st.DataObject) -> None:
    x = np.full(length, 3e38, np.float32)
    assert all_finite(x)
    x[data.draw(st.integers(0, length - 1))] = value
    assert not all_finite(x)
