"""A cache holds what was remembered where attention looks for it, however it came, and nothing beside it is touched."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estream_lab.kernels.host import cache_shapes, reference, remember


@settings(max_examples=40)
@given(
    st.integers(1, 3), st.sampled_from([2, 32, 48]), st.integers(0, 70), st.lists(st.integers(0, 70), max_size=3),
    st.integers(0, 40), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_parts_make_the_whole(heads: int, width: int, first: int, more: list[int], room: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    positions = first + sum(more)
    k, v = rng.standard_normal((2, positions + room, heads, width)).astype(np.float32)
    k[positions:] = v[positions:] = 0
    keys, values = (np.zeros(shape, np.float32) for shape in cache_shapes(heads, width, positions + room))
    done = 0
    for rows in (first, *more):
        remember(k[done : done + rows], v[done : done + rows], done, keys, values)
        done += rows
    expected = reference.strips(k, v)
    assert keys.shape == expected[0].shape and values.shape == expected[1].shape
    assert keys.tobytes() == expected[0].tobytes() and values.tobytes() == expected[1].tobytes()


def test_where_an_element_is() -> None:
    k, v = np.random.default_rng(0).standard_normal((2, 70, 3, 40)).astype(np.float32)
    keys, values = reference.strips(k, v)
    assert (keys.shape, values.shape) == cache_shapes(3, 40, 70)
    for t, h, d in ((0, 0, 0), (33, 1, 7), (69, 2, 39)):
        assert keys[h, t // 32, d, t % 32] == k[t, h, d]
        assert values[h, d // 32, t, d % 32] == v[t, h, d]


def test_refuses_what_does_not_fit() -> None:
    k = np.zeros((3, 2, 8), np.float32)
    keys, values = (np.zeros(shape, np.float32) for shape in cache_shapes(2, 8, 40))
    with pytest.raises(ValueError, match="positions 62 to 64 do not fit a cache of 64"):
        remember(k, k, 62, keys, values)
    with pytest.raises(ValueError, match="v must have shape"):
        remember(k, k[:2], 0, keys, values)
    with pytest.raises(ValueError, match="values must have shape"):
        remember(k, k, 0, keys, values[:, :, :32].copy())
    with pytest.raises(ValueError, match="keys must have shape"):
        remember(k, k, 0, keys[:, :, :7].copy(), values)
