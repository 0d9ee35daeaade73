"""The matrix product stays within a bound of float64 that follows from docs/numerics.md.

Block floating point, one group of g products with exact values p, in units of 2^-22:

- Aligning products: each is less than 2^X_g off, and the one that sets X_g is exact. As a product is at least
  2^(X + 2), 2^X_g <= max|p| / 4. Together less than (g - 1) max|p| / 4.
- Aligning the group's sum and the accumulator: one of them keeps its exponent X₂, so less than 2^X₂; the shift of the
  sum by one place: 2^X₂ at most.
- 2^X₂ <= A, the largest so far of max|p| / 4 of a group and |V| / 32 of a value V of the accumulator. After
  fewer than 3 places of normalisation |V| >= 2^(X + 5), as the anticipation is one short at most; after 3, X is less.

So a group adds less than (g - 1) max|p| / 4 + 2 A. In `ieee_fp32` each sum is off by 2^-24 of itself at most. Storing
adds half of the last place of the code.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.kernels.exact import decode_q4, matmul
from estream_lab.kernels.quant import quantise_q4_0
from tests.kernels.exact.groups import U16, random_groups
from tests.kernels.exact.rational import BLOCK_FLOATING, PROFILES, UNITS, ToGrid, dot, downwards, to_nearest, to_odd

F64 = NDArray[np.float64]

VALUES = np.array(UNITS) / 2.0**24
"""Of each code, exact in float64."""


def accumulated(products: F64, profile: str) -> F64:
    """The bound for the accumulator, (...,), for exact products (..., K)."""
    sums = np.cumsum(products, axis=-1)
    # float64's own error, of this oracle: each of K sums is off by 2^-53 of at most the sum of magnitudes.
    slack = products.shape[-1] * 2.0**-53 * np.abs(products).sum(axis=-1)
    error = np.zeros(products.shape[:-1])
    if profile == "ieee_fp32":
        for k in range(products.shape[-1]):
            error += 2.0**-24 * (np.abs(sums[..., k]) + error)
        return np.asarray(error * (1 + 2.0**-20) + slack)
    g, lowest = BLOCK_FLOATING[profile]
    a = np.full_like(error, 2.0**lowest)
    for k in range(0, products.shape[-1], g):
        top = np.abs(products[..., k : k + g]).max(axis=-1) / 4
        before = np.abs(sums[..., k - 1]) if k else 0
        a = np.maximum.reduce([a, top, (before + error) / 32])
        error += 2.0**-22 * ((g - 1) * top + 2 * a)
    return np.asarray(error + slack)


def half_a_place(codes: U16) -> F64:
    """Half of the distance between a code and the next of its exponent."""
    return np.asarray(2.0 ** (np.maximum(codes >> 10 & 31, 1).astype(np.int64) - 26))


def of_the_bound(codes: U16, products: F64, profile: str) -> F64:
    """The signed error of stored codes (...,), as a share of what is allowed, for exact products (..., K)."""
    limit = VALUES[0x7BFF if profile == "ieee_fp32" else 0x7FFF]
    exact = products.sum(axis=-1).clip(-limit, limit)  # the bound holds for what is clamped too: clamping brings closer
    return np.asarray((VALUES[codes] - exact) / (accumulated(products, profile) + half_a_place(codes)))


def activations_and_expert(depth: int) -> tuple[U16, U16]:
    """fp16 rows (16, K) and a decoded Q4 projection (64, K)."""
    rng = np.random.default_rng(depth)
    rows = rng.standard_normal((16, depth)).astype(np.float16).view(np.uint16)
    return rows, decode_q4(*quantise_q4_0((rng.standard_normal((64, depth)) / 16).astype(np.float32)))


def all_products(a: U16, b: U16) -> F64:
    return np.asarray(VALUES[a][:, None] * VALUES[b][None])  # (M, N, K)


@pytest.mark.parametrize("depth", [32, 256, 1408])
@pytest.mark.parametrize("profile", PROFILES)
def test_rows_against_a_q4_projection(profile: str, depth: int) -> None:
    a, b = activations_and_expert(depth)
    assert np.abs(of_the_bound(matmul(a, b, profile), all_products(a, b), profile)).max() <= 1


COUNT = 2400  # rows; those whose sum is taken away to 22 bits show the accumulator's own error


def hard_rows() -> tuple[U16, U16, F64]:
    a, b = random_groups(np.random.default_rng(8), COUNT)
    return a, b, VALUES[a] * VALUES[b]


def diagonal(a: U16, b: U16, profile: str) -> U16:
    cuts = range(0, len(a), 32)
    return np.concatenate([matmul(a[i : i + 32], b[i : i + 32], profile).diagonal() for i in cuts])


@pytest.mark.parametrize("profile", PROFILES)
def test_rows_of_any_codes_and_of_cancelled_sums(profile: str) -> None:
    a, b, products = hard_rows()
    codes = diagonal(a, b, profile)
    assert np.abs(of_the_bound(codes, products, profile)).max() <= 1
    assert np.abs(shown(codes, products, profile)).max() > 0.2  # the bound is not much wider than what happens


def shown(codes: U16, products: F64, profile: str) -> F64:
    """Shares of the bound where the accumulator's error outweighs the store's, and the store has not clamped."""
    outweighs = accumulated(products, profile) > 8 * half_a_place(codes)
    return of_the_bound(codes, products, profile)[outweighs & (codes & 0x7FFF < 0x7BFF)]


def as_set_by_odd_rounding(shares: F64) -> bool:
    """Whether errors have no side, and the spread that comes of setting the last bit.

    The bound is blind to a last bit that is never set; the mean isn't: setting it rounds up as often as down.
    """
    assert len(shares) > 900
    return abs(shares.mean()) < 0.01 and 0.055 < shares.std() < 0.09  # standard error of the mean: 0.0023


@pytest.mark.parametrize("profile", BLOCK_FLOATING)
def test_errors_have_the_spread_of_odd_rounding_and_no_side(profile: str) -> None:
    a, b, products = hard_rows()
    assert as_set_by_odd_rounding(shown(diagonal(a, b, profile), products, profile))


FAULTS: dict[str, ToGrid] = {
    "last bit never set": downwards,
    "to nearest": to_nearest,
    "one bit of fraction fewer": lambda value, grid: to_odd(value, 2 * grid),
    "two bits of fraction fewer": lambda value, grid: to_odd(value, 4 * grid),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("profile", ["hmx_v73_g4", "hmx_v75_g8"])
def test_faults_of_rounding_are_told(profile: str, fault: str) -> None:
    a, b, products = hard_rows()
    codes = [dot(*row, profile, FAULTS[fault]) for row in zip(a.tolist(), b.tolist(), strict=True)]
    of_fault = np.array(codes, np.uint16)
    assert not as_set_by_odd_rounding(shown(of_fault, products, profile))
    if fault == "two bits of fraction fewer":
        assert np.abs(of_the_bound(of_fault, products, profile)).max() > 1


@pytest.mark.parametrize("left_out", [1, 4, 8])
@pytest.mark.parametrize("depth", [32, 1408])
@pytest.mark.parametrize("profile", PROFILES)
def test_products_left_out_break_the_bound(profile: str, depth: int, left_out: int) -> None:
    a, b = activations_and_expert(depth)
    without = a.copy()
    without[:, 16 : 16 + left_out] = 0
    share = of_the_bound(matmul(without, b, profile), all_products(a, b), profile)
    # Not all: a weight may be zero, or a product less than half a place of the sum.
    assert np.mean(np.abs(share) > 1) > 0.75
