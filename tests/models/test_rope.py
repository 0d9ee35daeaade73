import numpy as np
import pytest

from estream_lab.models.rope import rope_tables


@pytest.mark.parametrize(("head_dim", "theta"), [(16, 1e4), (32, 1e4), (128, 1e6)])
def test_angles_are_those_of_the_paper(head_dim: int, theta: float) -> None:
    cos, sin = rope_tables(300, head_dim, theta)
    exact = np.arange(300)[:, None] * theta ** -(np.arange(0, head_dim, 2) / head_dim)
    assert cos.dtype == sin.dtype == np.float32
    # An angle near 300 is rounded to a multiple of 2^-15.
    assert np.abs(cos - np.cos(exact)).max() < 5e-5
    assert np.abs(sin - np.sin(exact)).max() < 5e-5
    assert (cos[0] == 1).all()
    assert (sin[0] == 0).all()


def test_the_first_positions_do_not_depend_on_how_many_there_are() -> None:
    for short, long in zip(rope_tables(10, 64, 1e4), rope_tables(1000, 64, 1e4), strict=True):
        assert np.array_equal(short, long[:10])
