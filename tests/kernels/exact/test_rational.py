"""The matrix product is the rational model of docs/numerics.md, bit for bit, for every profile."""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.kernels.exact import matmul
from tests.kernels.exact.groups import FAMILIES, GAPS, U16, adversarial_groups, random_groups
from tests.kernels.exact.rational import (
    CODES,
    PROFILES,
    TICK,
    UNITS,
    accumulate,
    anticipated,
    dot,
    downwards,
    store,
    to_odd,
)

RANDOM, ADVERSARIAL = 10_000, GAPS * len(FAMILIES)  # the latter 1,053: each gap once
"""Rows of each kind that every profile is held to: a row is one accumulator, from start to store, of several groups."""

SIDE = 32  # rows that are multiplied in one call; the diagonal counts


@cache
def rows(kind: str) -> list[tuple[U16, U16]]:
    """Rows by depth: codes a and b, both (rows, K)."""
    if kind == "random":
        return [random_groups(np.random.default_rng(4), RANDOM)]
    by_depth: dict[int, list[tuple[U16, U16]]] = {}
    for _, a, b in adversarial_groups(np.random.default_rng(5), ADVERSARIAL):
        by_depth.setdefault(len(a), []).append((a, b))
    return [(np.stack([a for a, _ in some]), np.stack([b for _, b in some])) for some in by_depth.values()]


@cache
def expected(kind: str, profile: str) -> list[int]:
    if profile == "hmx_v79_g8":  # the page states the same arithmetic, and the model's table holds the same numbers
        return expected(kind, "hmx_v75_g8")
    return [dot(a, b, profile) for both in rows(kind) for a, b in pairs(*both)]


def pairs(a: U16, b: U16) -> Iterable[tuple[list[int], list[int]]]:
    return zip(a.tolist(), b.tolist(), strict=True)


def computed(kind: str, profile: str) -> list[int]:
    codes: list[int] = []
    for a, b in rows(kind):
        for at in range(0, len(a), SIDE):
            columns = np.resize(b[at : at + SIDE], (SIDE, b.shape[1]))  # the last are repeated to whole strips of 32
            codes += matmul(a[at : at + SIDE], columns, profile).diagonal().tolist()
    return codes


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("kind", "count"), [("random", RANDOM), ("adversarial", ADVERSARIAL)])
def test_every_row_is_what_the_model_says(kind: str, count: int, profile: str) -> None:
    want, got = expected(kind, profile), computed(kind, profile)
    assert len(want) == len(got) == count
    wrong = [i for i in range(count) if want[i] != got[i]]
    assert not wrong, (
        f"{len(wrong)} of {count}, the first is row {wrong[0]}: {got[wrong[0]]:#06x}, not {want[wrong[0]]:#06x}"
    )


@pytest.mark.parametrize("kind", ["random", "adversarial"])
def test_two_more_bits_of_exponent_change_nothing(kind: str) -> None:
    assert expected(kind, "hmx_v75_g8") == expected(kind, "hmx_v81_g8_a39")


@pytest.mark.parametrize("profile", PROFILES)
def test_whole_numbers_of_ticks_are_the_fractions(profile: str) -> None:
    some = adversarial_groups(np.random.default_rng(6), 10 * len(FAMILIES))
    for a, b in [
        *((a.tolist(), b.tolist()) for _, a, b in some),
        *pairs(*random_groups(np.random.default_rng(7), 100)),
    ]:
        value, x = accumulate(a, b, profile)
        ticks, same_x = accumulate(a, b, profile, tick=1)
        assert isinstance(value, Fraction) and isinstance(ticks, int)
        assert (value, x) == (ticks * TICK, same_x)


def leading_zeros(a: int, b: int, grid: int) -> int:
    """What the anticipation approximates."""
    total = (a + b) // grid
    return 30 - (total if total >= 0 else ~total).bit_length()


def no_product(a: Sequence[int], b: Sequence[int]) -> bool:
    return not any(m and n for m, n in zip(a, b, strict=True))


FAULTS: dict[str, dict[str, Callable[..., Any]]] = {
    "last bit not set": {"to_grid": downwards},
    "exact places": {"places": leading_zeros},
    "places of positive sums only": {"places": lambda a, b, grid: anticipated(abs(a), abs(b), grid)},
    "at most two places": {"places": lambda a, b, grid: min(2, anticipated(a, b, grid))},
    "nothing passed over": {"passed_over": lambda a, b: False},
    "passed over where every product is zero": {"passed_over": no_product},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("profile", ["hmx_v73_g4", "hmx_v75_g8"])
def test_the_adversarial_rows_tell_faults(profile: str, fault: str) -> None:
    wrong = [
        store(accumulate(a, b, profile, 1, **FAULTS[fault])[0] * TICK, profile)
        for both in rows("adversarial")
        for a, b in pairs(*both)
    ]
    assert np.count_nonzero(np.array(wrong) != expected("adversarial", profile)) >= 10


@pytest.mark.parametrize("kind", ["random", "adversarial"])
def test_the_rows_tell_profiles_apart(kind: str) -> None:
    fp32, g4, g8 = (np.array(expected(kind, profile)) for profile in PROFILES[:3])
    assert min(np.mean(fp32 != g4), np.mean(fp32 != g8), np.mean(g4 != g8)) > 0.02


@given(st.integers(-(2**29), 2**29 - 1), st.integers(-(2**29), 2**29 - 1), st.integers(0, 26))
def test_the_anticipated_place_is_at_most_one_short(a: int, b: int, near: int) -> None:
    close = min(max(b % 2 ** (near + 1) - 2**near - a, -(2**29)), 2**29 - 1)  # cancels a but for `near` bits
    for other in (b, close):
        assert min(3, leading_zeros(a, other, 1)) - anticipated(a, other, 1) in (0, 1)


@given(st.integers(-(2**29), 2**29 - 1), st.integers(-60, 30))
def test_keeping_15_bits_before_the_store_changes_nothing(s: int, x: int) -> None:
    value = s * Fraction(2) ** (x - 22)
    kept = to_odd(value, Fraction(2) ** (x - 22 + max(0, s.bit_length() - 15)))
    assert store(value, "hmx_v75_g8") == store(kept, "hmx_v75_g8")


ONE, EPS, TINY = 0x3C00, 0x1000, 0x0001  # 1, 2^-11, 2^-24
MINUS = 0x8000
WORKED = {
    # 1 + 2^-11 is half way between 1 and its neighbour: to even. A 2^-48 beside it is kept as a last bit, and decides.
    "tie": ([ONE, EPS], [ONE, ONE], ONE),
    "tie, from above": ([ONE, EPS, TINY], [ONE, ONE, TINY], ONE + 1),
    "tie, from below": ([ONE, EPS, MINUS | TINY], [ONE, ONE, TINY], ONE),
    # X of the group is -2, its grid 2^-24: 2^-48 counts as 2^-24 there, and as 2^-23 one place to the right.
    "a trifle is rounded up to the grid": (
        [ONE, TINY, 0, 0, 0, 0, 0, 0, MINUS | ONE],
        [ONE, TINY, *[0] * 6, ONE],
        0x0002,
    ),
    "a trifle below is rounded the other way": (
        [ONE, MINUS | TINY, *[0] * 6, MINUS | ONE],
        [ONE, TINY, *[0] * 6, ONE],
        MINUS | 2,
    ),
    "nothing is +0": ([MINUS | ONE, MINUS], [0, ONE], 0),
    "beyond the largest code": ([0x7FFF] * 32, [0x7FFF] * 32, 0x7FFF),
    "and its negative": ([0xFFFF] * 32, [0x7FFF] * 32, 0xFFFF),
    "65536 has a code": ([0x7BFF, 0x5000], [ONE, ONE], 0x7C00),
}


@pytest.mark.parametrize("case", WORKED)
def test_the_model_gives_what_was_worked_out_by_hand(case: str) -> None:
    a, b, code = WORKED[case]
    depth = -len(a) % 32
    assert dot(a + [0] * depth, b + [0] * depth, "hmx_v75_g8") == code


def test_fp32_rounds_each_sum_to_24_bits() -> None:
    # 2^-24 added to 1 is half a unit of the last of 24 bits: to even, each time anew. Below 1 it is a whole one.
    a, b = [ONE] + [TINY] * 30 + [MINUS | ONE], [ONE] * 32
    assert dot(a, b, "ieee_fp32") == 0
    assert dot(a[::-1], b, "ieee_fp32") == 30
    assert store(Fraction(65519), "ieee_fp32") == store(Fraction(10**9), "ieee_fp32") == 0x7BFF
    assert store(Fraction(65520), "hmx_v75_g8") == 0x7C00


def test_codes_and_units_are_inverse() -> None:
    assert all(CODES[UNITS[code]] == code for code in range(65536) if code != 0x8000)
    some = np.arange(0x7C00, dtype=np.uint16)
    assert np.array_equal(np.array(UNITS[:0x7C00]) * 2.0**-24, some.view(np.float16).astype(np.float64))
    assert UNITS[0x7FFF] == 131008 * 2**24
