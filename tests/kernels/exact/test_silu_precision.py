"""Every entry of the SiLU table is the correctly rounded one: shown with 50 digits, and no case is left undecided."""

from decimal import Context, Decimal, localcontext
from functools import cache

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.exact import silu_table
from tests.kernels.exact.rational import UNITS

U16 = NDArray[np.uint16]

DIGITS = 50
ERROR = Decimal(10) ** (2 - DIGITS)
"""Of exp, one sum and one quotient: decimal rounds each correctly, to 5e-50 of itself, so together 2e-49 at most."""

LARGEST = 0x7BFF  # the code of 65504


@cache
def magnitudes() -> list[Decimal]:
    """|silu(x)| for each code of x, clamped to ±65504, in units of 2^-25 and within `ERROR` of itself."""
    with localcontext(Context(prec=DIGITS)):
        values = []
        for code in range(65536):
            n = max(-UNITS[LARGEST], min(UNITS[LARGEST], UNITS[code]))
            x = Decimal(n) / 2**24  # exact: at most 16 + 24 digits
            values.append(2 * abs(n) / (1 + (-x).exp()))
        return values


def undecided_and_wrong(table: U16) -> tuple[list[int], list[int]]:
    """Codes whose value is too near to a rounding boundary to tell, and codes whose entry is not the nearest value."""
    undecided, wrong = [], []
    with localcontext(Context(prec=DIGITS)):
        for code, (entry, value) in enumerate(zip(table.tolist(), magnitudes(), strict=True)):
            magnitude = entry & 0x7FFF
            # Half way to the neighbours, in units of 2^-25: whole numbers. A value of 65520 or more has no entry.
            below = UNITS[magnitude - 1] + UNITS[magnitude] if magnitude else -1
            above = UNITS[magnitude] + UNITS[magnitude + 1]
            if value and min(abs(value - below), abs(value - above)) <= value * ERROR:
                undecided.append(code)
            if not below < value < above or magnitude > LARGEST or (entry ^ code) & 0x8000:
                wrong.append(code)
    return undecided, wrong


def test_all_entries_are_correctly_rounded() -> None:
    table = silu_table()
    assert table.shape == (65536,) and table.dtype == np.uint16
    assert undecided_and_wrong(table) == ([], [])


def test_fifty_digits_are_enough_by_far() -> None:
    """The nearest that any value comes to a boundary is 4.8e-12 of itself; its error is 1e-48 of itself at most."""
    with localcontext(Context(prec=DIGITS)):
        halves = sorted({UNITS[m] + UNITS[m + 1] for m in range(LARGEST + 1)})
        places = np.searchsorted(np.array(halves, np.float64), [float(value) for value in magnitudes()])
        nearest = min(
            abs(value - halves[i]) / value
            for value, place in zip(magnitudes(), places.tolist(), strict=True)
            for i in (max(place - 1, 0), min(place, len(halves) - 1))
            if value
        )
    assert nearest > Decimal("4.8e-12") > ERROR * 10**30


def test_a_table_made_in_fp32_is_found_wrong() -> None:
    x = (np.array(UNITS) / 2**24).astype(np.float32).clip(-65504, 65504)
    with np.errstate(over="ignore"):
        rounded_twice = (x / (1 + np.exp(-x))).astype(np.float16).view(np.uint16)
    rounded_twice[0x8000] = 0x8000
    undecided, wrong = undecided_and_wrong(rounded_twice)
    assert not undecided and wrong


def test_one_entry_that_is_one_off_is_found() -> None:
    table = silu_table().copy()
    table[0x3C00] += 1
    table[0x8000] = 0
    assert undecided_and_wrong(table)[1] == [0x3C00, 0x8000]
