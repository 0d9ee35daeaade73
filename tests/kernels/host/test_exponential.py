"""The exponential is within its stated error, and the same in a vectorised loop as alone."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from estream_lab.kernels.host import reference
from estream_lab.kernels.host.exponential import exp32, silu

F32 = NDArray[np.float32]


@njit
def exp_all(x: F32, out: F32) -> None:
    for i in range(len(x)):
        out[i] = exp32(x[i])


@njit
def silu_all(x: F32, out: F32) -> None:
    for i in range(len(x)):
        out[i] = silu(x[i])


def ulps(got: F32, exact: NDArray[np.float64]) -> float:
    return float((np.abs(got - exact) / np.spacing(np.abs(exact).astype(np.float32))).max())


GRID = np.concatenate([np.linspace(-87, 88, 1_000_003), [0.0, -0.0, 1e-30, -1e-30, 0.34657, -0.34658]]).astype(
    np.float32
)


def test_exp_is_within_an_ulp() -> None:
    out = np.empty_like(GRID)
    exp_all(GRID, out)
    assert ulps(out, np.exp(GRID.astype(np.float64))) <= 1
    assert out.tobytes() == reference.exp32(GRID).tobytes()
    assert exp32(np.float32(0)) == 1


def test_exp_stays_normal_beyond_its_range() -> None:
    ends = np.array([-np.inf, -1e30, -88, 89, 1e30, np.inf], np.float32)
    out = np.empty_like(ends)
    exp_all(ends, out)
    assert np.isfinite(out).all()
    assert (out >= np.finfo(np.float32).tiny).all()


def test_silu_is_within_its_bounds() -> None:
    out = np.empty_like(GRID)
    silu_all(GRID, out)
    x = GRID.astype(np.float64)
    assert ulps(out, x / (1 + np.exp(-x))) <= 3
    assert out.tobytes() == reference.silu(GRID).tobytes()
    far = np.array([-88.5, -100, -1e4, 100, 1e30], np.float32)
    out = np.empty_like(far)
    silu_all(far, out)
    assert (np.abs(out[:2]) <= 2.0**-115).all()
    assert np.array_equal(out[3:], far[3:])


def test_a_value_is_the_same_wherever_it_stands() -> None:
    x = np.random.default_rng(0).uniform(-20, 20, 67).astype(np.float32)
    whole = np.empty_like(x)
    silu_all(x, whole)
    for cut in range(1, 20):
        parts = [np.empty_like(p) for p in (x[:cut], x[cut:])]
        for part, out in zip((x[:cut], x[cut:]), parts, strict=True):
            silu_all(part, out)
        assert np.concatenate(parts).tobytes() == whole.tobytes()
