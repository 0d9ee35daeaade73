"""Norms and rotary embedding equal their NumPy versions bit for bit, and fp64 closely."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from estream_lab.kernels.host import reference, rms_norm, rotate_half

F32 = NDArray[np.float32]


def normal(rng: np.random.Generator, *shape: int) -> F32:
    return rng.standard_normal(shape).astype(np.float32)


@given(st.integers(0, 6), st.integers(1, 80), st.integers(0, 2**32 - 1))
def test_rms_norm_equals_numpy_and_fp64(rows: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, weight = normal(rng, rows, width), normal(rng, width)
    got = rms_norm(x, weight, 1e-5)
    assert got.tobytes() == reference.rms_norm(x, weight, 1e-5).tobytes()
    x64 = x.astype(np.float64)
    exact = weight * (x64 / np.sqrt((x64**2).mean(axis=1, keepdims=True) + 1e-5))
    # Squares are summed in 16 lanes of width / 16 terms, folded 4 times; then six single roundings.
    assert (np.abs(got - exact) <= (width / 16 + 10) * 2.0**-24 * np.abs(exact)).all()


def test_rms_norm_works_in_place() -> None:
    x = normal(np.random.default_rng(0), 5, 40)
    expected = rms_norm(x, np.ones(40, np.float32), 1e-6)
    assert rms_norm(x, np.ones(40, np.float32), 1e-6, x) is x
    assert np.array_equal(x, expected)


def test_rms_norm_keeps_rows_apart() -> None:
    x = normal(np.random.default_rng(0), 7, 33)
    weight = normal(np.random.default_rng(1), 33)
    rows = [rms_norm(row[None], weight, 1e-5) for row in x]
    assert np.concatenate(rows).tobytes() == rms_norm(x, weight, 1e-5).tobytes()


@given(st.integers(0, 5), st.integers(1, 3), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_rotation_equals_numpy_and_complex_multiplication(rows: int, heads: int, half: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = normal(rng, rows, heads, 2 * half)
    angle = rng.uniform(0, 1000, (rows, half))
    cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
    before = x.copy()
    rotate_half(x, cos, sin)
    assert x.tobytes() == reference.rotate_half(before, cos, sin).tobytes()
    turned = (before[..., :half] + 1j * before[..., half:].astype(np.float64)) * np.exp(1j * angle)[:, None]
    assert np.allclose(x[..., :half], turned.real, atol=1e-5)
    assert np.allclose(x[..., half:], turned.imag, atol=1e-5)


def test_refuses_what_it_cannot_do_in_place() -> None:
    flat = np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match="writable, C-contiguous float32"):
        rotate_half(np.zeros((2, 1, 6)), flat, flat)
    with pytest.raises(ValueError, match="even size, not 5"):
        rotate_half(np.zeros((2, 1, 5), np.float32), flat, flat)
    with pytest.raises(ValueError, match=r"cos must have shape \(2, 3\)"):
        rotate_half(np.zeros((2, 1, 6), np.float32), flat[:1], flat)
    with pytest.raises(ValueError, match=r"weight must have shape \(3\)"):
        rms_norm(flat, np.ones(4, np.float32), 1e-5)
