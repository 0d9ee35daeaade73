"""The twin's matrix product gives what can be worked out by hand; no other version is needed here."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from estream_lab.kernels.exact import twin

BLOCK_FLOATING = ["hmx_v73_g4", "hmx_v75_g8", "hmx_v79_g8", "hmx_v81_g8_a39"]
PROFILES = ["ieee_fp32", *BLOCK_FLOATING]


def codes(*numbers: float) -> NDArray[np.uint16]:
    """fp16 numbers as one row of 32 codes, the rest +0."""
    row = np.zeros((1, 32), np.float16)
    row[0, : len(numbers)] = numbers
    assert list(row[0, : len(numbers)]) == list(numbers), "not fp16"
    return row.view(np.uint16)


def accumulator(a: list[float], b: list[float], profile: str = "hmx_v73_g4") -> tuple[int, int]:
    S, X = twin.accumulate(codes(*a), codes(*b), profile)
    return int(S[0, 0]), int(X[0, 0])


def stored(S: int, X: int) -> int:
    return int(twin.store(np.array([S]), np.array([X]))[0])


def any_codes(seed: int, shape: tuple[int, ...]) -> NDArray[np.uint16]:
    """Codes of many exponents or of few, E = 31 among them, with none, some or mostly zeros of both signs."""
    rng = np.random.default_rng(seed)
    low = int(rng.integers(0, 32))
    E = rng.integers(low, int(rng.integers(low, 32)) + 1, shape)
    M = rng.integers(0, 1024, shape) & rng.choice([0, 0x3FF, 0x200, 1])
    drawn = rng.integers(0, 2, shape) << 15 | E << 10 | M
    drawn[rng.random(shape) < rng.choice([0, 0.5, 0.95])] &= 0x8000
    return drawn.astype(np.uint16)


# The matrix product


def test_a_product_is_halved_and_normalised_by_three_places() -> None:
    assert accumulator([1], [1]) == (2**26, -4)  # 2^24 at -2: 2^23 at -1: 2^26 at -4
    assert accumulator([-1], [1]) == (-(2**26), -4)


def test_four_products_make_one_aligned_sum() -> None:
    # 3, 0.5, -1.75 and 0 at X_g = -1, in units of 2^-23: 12, 2 and -7 times 2^21; halved and times 8.
    assert accumulator([2, 1, -1.75, 0], [1.5, 0.5, 1, 5]) == (7 * 2**23, -3)


def test_bits_lost_by_a_small_product_set_its_last_bit() -> None:
    # Aligned to 2^24, 1 · 1, the other product is half a place: 1. The odd sum is halved to 2^23 | 1.
    assert accumulator([1, 0.5], [1, 2.0**-24]) == ((2**23 + 1) * 8, -4)


def test_a_negative_product_goes_towards_minus_infinity_and_then_its_last_bit_is_set() -> None:
    assert accumulator([1, 1.75], [1, -(2.0**-23)]) == (8388607 * 8, -4)  # -3.5: -4: -3; 2^24 - 3, halved, is odd
    assert accumulator([1, 1.125], [1, -(2.0**-22)]) == (8388605 * 8, -4)  # -4.5: -5


def test_the_farthest_product_is_lost_but_for_its_last_bit() -> None:
    big, tiny = 65504.0, 2.0**-24  # 16 · 2047² = 67043344 at 28, and 2^24 at -50: 78 places
    assert accumulator([big, tiny], [big, tiny]) == (33521673 * 8, 26)
    assert accumulator([big, tiny], [big, -tiny]) == (33521671 * 8, 26)


def test_subnormals_are_normalised_and_kept() -> None:
    assert accumulator([2.0**-24], [2.0**-24]) == (2**26, -52)
    assert accumulator([3 * 2.0**-24], [-1]) == (-3 * 2**25, -27)  # m = 1536, e = -8


def test_profiles_differ_by_the_products_of_a_group() -> None:
    a, b = [1, 0, 0, 0, 0.5, 0.5, 0.5, 0.5], [1, 0, 0, 0, *[2.0**-24] * 4]
    assert accumulator(a, b, "hmx_v73_g4") == (2**27 + 16, -5)  # four halves of a place are 2^26 at -27 first
    for profile in BLOCK_FLOATING[1:]:
        assert accumulator(a, b, profile) == (2**26 + 16, -4)  # each half is 1 by its last bit


def test_the_anticipated_count_depends_on_the_signs() -> None:
    # To 2^26 at -4 comes 8: bit 27 of Z is set, two places. To -2^26 comes -8: bit 26 of O, three.
    a, b = [1, 0, 0, 0, 0.5, 0.5, 0.5, 0.5], [1, 0, 0, 0, *[2.0**-24] * 4]
    assert accumulator(a, b) == (2**27 + 16, -5)
    assert accumulator([-n for n in a], b) == (-(2**28) - 32, -6)
    # ±2^28 in the first group: bit 29 of Z is set, none; in the negative, O has its first 1 at bit 27, two.
    sixteen = [1.5] * 4 + [1.75] * 4, [1.5] * 4 + [1.0] * 4
    assert accumulator(*sixteen, "hmx_v75_g8") == (2**27, -1)
    assert accumulator([-n for n in sixteen[0]], sixteen[1], "hmx_v75_g8") == (-(2**29), -3)
    # 4, 8, and then 2^28 and 2^28 + 2^25 at -3: bit 29 of Z, although bit 29 of O is 0.
    a, b = [*[1, 1, 1, 1, 0, 0, 0, 0] * 2, *[1.5] * 8], [*[1] * 16, *[0.75] * 8]
    assert accumulator(a, b, "hmx_v75_g8") == (2**28 + 2**24, -2)
    # 2^25 at -3 and -2^25 + 2^14 leave 2^14.
    assert accumulator([1, 0, 0, 0, 2047 * 2.0**-11], [1, 0, 0, 0, -1]) == (2**16, -5)


def test_a_group_is_passed_over_only_where_one_side_is_all_zero() -> None:
    first = [1, 1.75, 0, 0], [1, -(2.0**-23), 0, 0]
    before = accumulator(*first)
    assert accumulator(first[0] + [1, 2, 3, 4], first[1] + [-0.0] * 4) == before
    assert accumulator(first[0] + [-0.0] * 4, first[1] + [1, 2, 3, 4]) == before
    assert accumulator(first[0] + [1, 0], first[1] + [0, 1]) == (before[0] * 4, before[1] - 2)  # zero products


def test_a_cancelled_sum_keeps_its_exponent() -> None:
    assert accumulator([1, -1], [1, 1]) == (0, -4)
    assert accumulator([1, -1, 0, 0, 2.0**-24], [1, 1, 0, 0, 1]) == (16, -6)
    assert accumulator([1, -1, 0, 0, 2.0**-24], [1, 1, 0, 0, 2.0**-24]) == (8, -6)  # 2^-48 counts as 2^-25


@pytest.mark.parametrize(
    ("profile", "lowest"), [("hmx_v73_g4", -64), ("hmx_v75_g8", -64), ("hmx_v79_g8", -64), ("hmx_v81_g8_a39", -130)]
)
def test_the_exponent_stops_at_its_smallest(profile: str, lowest: int) -> None:
    a, b = np.zeros((2, 1, 512), np.float16)
    a[0, ::4], b[0, 1::4] = 1, 1  # zero products in every group
    a[0, 1], b[0, 0] = -1, 1  # the first: 1 - 1 leaves (0, -4), and each of 63 others takes two more
    S, X = twin.accumulate(a.view(np.uint16), b.view(np.uint16), profile)
    assert (S.item(), X.item()) == (0, lowest)


def test_an_empty_sum_is_zero_at_the_smallest_exponent() -> None:
    empty = [accumulator([], [], profile) for profile in BLOCK_FLOATING]
    assert empty == [(0, -64), (0, -64), (0, -64), (0, -256)]


@given(st.integers(0, 2**32 - 1))
def test_the_accumulator_fits_and_its_width_changes_no_result(seed: int) -> None:
    a, b = any_codes(seed, (3, 64)), any_codes(seed + 1, (4, 64))
    results = {}
    for profile in BLOCK_FLOATING:
        S, X = twin.accumulate(a, b, profile)
        assert S.min() >= -(2**29) and S.max() < 2**29 and X.min() >= twin.BLOCK_FLOATING[profile][1]
        results[profile] = twin.store(S, X)
    for profile in ["hmx_v79_g8", "hmx_v81_g8_a39"]:
        np.testing.assert_array_equal(results[profile], results["hmx_v75_g8"])


@pytest.mark.parametrize("profile", PROFILES)
def test_sums_of_positive_products_are_close(profile: str) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.uniform(0.5, 2, (2, 5, 64)).astype(np.float16)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    result = twin.value(twin.matmul(a.view(np.uint16), b.view(np.uint16), profile))
    np.testing.assert_allclose(result, exact, rtol=2**-11 + 2**-16)  # the store's half place; 12 · 2^-24 a group


@pytest.mark.parametrize("profile", PROFILES)
def test_an_element_is_its_row_and_its_column_alone(profile: str) -> None:
    a, b = any_codes(5, (3, 64)), any_codes(6, (2, 64))
    whole = twin.matmul(a, b, profile)
    assert whole.shape == (3, 2)
    for i, j in np.ndindex(3, 2):
        assert whole[i, j] == twin.matmul(a[i : i + 1], b[j : j + 1], profile).item()


def test_a_wrong_profile_or_depth_is_refused() -> None:
    a = codes(1)
    for profile in ["hmx_v76_g8", ""]:
        with pytest.raises(ValueError):
            twin.matmul(a, a, profile)
    with pytest.raises(ValueError):
        twin.accumulate(a, a, "ieee_fp32")
    for profile in PROFILES:
        for b in [a[:, :16], np.tile(a, 2)]:
            with pytest.raises(ValueError):
                twin.matmul(a, b, profile)
        with pytest.raises(ValueError):
            twin.matmul(a[:, :16], a[:, :16], profile)


# The store


@pytest.mark.parametrize(
    ("S", "X", "code"),
    [
        (2049, 22, 0x6800),  # a tie: 2048
        (2051, 22, 0x6802),  # a tie: 2052
        (-2049, 22, 0xE800),
        ((2049 << 16) + 1, 6, 0x6801),  # just above the tie, by a bit beyond the fifteenth
        (-(2049 << 16) - 1, 6, 0xE801),
        ((2049 << 16) - 1, 6, 0x6800),
        (-(2049 << 16) + 1, 6, 0xE800),
        (3, -3, 2),  # 3 · 2^-25, a tie between subnormals
        (1, -3, 0),  # 2^-25, a tie with zero
        (-1, -3, 0),
        (-3 << 20, -24, 0x8001),  # 0.75 · 2^-24
        (0, 5, 0),
        (1, 38, 0x7C00),  # 65536
        (2047, 28, 0x7FFF),  # 131008
        (-(2047 << 4) - 8, 24, 0xFFFF),  # 131040, a tie with what has no code
        (-(2**29), 30, 0xFFFF),
        (2**29 - 1, 30, 0x7FFF),
    ],
)
def test_stored_by_hand(S: int, X: int, code: int) -> None:
    assert stored(S, X) == code


@given(st.integers(-(2**29), 2**29 - 1), st.integers(0, 29), st.integers(-64, 40))
def test_fifteen_bits_store_what_the_value_itself_rounds_to(S: int, drop: int, X: int) -> None:
    S >>= drop
    exact = Fraction(S) * Fraction(2) ** (X - 22)
    if abs(exact) < 65520:
        expected = np.float16(float(exact)).view(np.uint16) if np.float16(float(exact)) else 0
    else:
        expected = min(round(abs(exact) / 64), 2047) - 1024 + 0x7C00 + 0x8000 * (S < 0)
    assert stored(S, X) == expected


def test_products_saturate_at_exponent_31() -> None:
    for profile in BLOCK_FLOATING:
        assert twin.matmul(codes(65504), codes(-65504), profile).item() == 0xFFFF
        assert twin.matmul(codes(65504, 65504), codes(1, 1), profile).item() == 0x7FFF  # 131008
        assert twin.matmul(codes(2.0**-24), codes(-(2.0**-24)), profile).item() == 0
        e31 = np.array([[0x7C01] + [0] * 31], np.uint16)
        assert twin.matmul(e31, codes(1), profile).item() == 0x7C01


def test_ieee_fp32_is_a_loop_of_fp32_sums() -> None:
    a, b = any_codes(8, (4, 96)), any_codes(9, (5, 96))
    rng = np.random.default_rng(10)
    a[0], b[0] = rng.standard_normal((2, 96)).astype(np.float16).view(np.uint16)
    result = twin.accumulate_fp32(a, b)
    for i, j in np.ndindex(4, 5):
        total = np.float32(0)
        for k in range(96):
            total = np.float32(total + np.float32(twin.value(a[i, k])) * np.float32(twin.value(b[j, k])))
        assert result[i, j].view(np.uint32) == total.view(np.uint32)


def test_ieee_fp32_rounds_every_sum_in_order() -> None:
    a, b = [4096, 1, 1, -4096], [4096, 1, 1, 4096]  # 2^24 + 1 is a tie, to 2^24, twice
    assert twin.accumulate_fp32(codes(*a), codes(*b)).item() == 0
    assert twin.accumulate_fp32(codes(*a[1:], 4096), codes(*b[1:], 4096)).item() == 2


def test_ieee_fp32_is_stored_with_positive_zeros_and_saturates() -> None:
    total = np.array([0, -0.0, -(2.0**-48), -(2.0**-25), 65520, -1e9, 65519.99, 1 + 2**-11], np.float32)
    assert list(twin.store_fp32(total)) == [0, 0, 0, 0, 0x7BFF, 0xFBFF, 0x7BFF, 0x3C00]
    assert twin.matmul(codes(65504), codes(65504), "ieee_fp32").item() == 0x7BFF
