"""Codes taken apart and put together, over all of them."""

from fractions import Fraction

import numpy as np

from estream_lab.kernels.exact.elementwise import CLAMPED_VALUES
from estream_lab.kernels.exact.half import IEEE_LARGEST, NO_EXPONENT, clamped, half_code, operands, value
from estream_lab.kernels.exact.strips import number, operand

CODES = np.arange(1 << 16, dtype=np.uint16)
EXPONENT, FRACTION = CODES >> 10 & 31, (CODES & 1023).astype(np.float64)
BY_DEFINITION = np.where(
    EXPONENT == 0, FRACTION * 2.0**-24, (1024 + FRACTION) * 2.0 ** (EXPONENT.astype(np.float64) - 25)
)
BY_DEFINITION = np.where(CODES >> 15, -BY_DEFINITION, BY_DEFINITION)


def test_every_code_is_the_number_of_the_table() -> None:
    assert np.array_equal(value(CODES).astype(np.float64), BY_DEFINITION)
    finite = EXPONENT < 31
    assert np.array_equal(value(CODES)[finite], CODES.view(np.float16)[finite].astype(np.float32))


def test_operands_are_normalised_but_for_zeros() -> None:
    m, e = (table.astype(np.int64) for table in operands())
    zero = (CODES & 0x7FFF) == 0
    assert not m[zero].any() and (e[zero] == NO_EXPONENT).all()
    assert (np.abs(m[~zero]) >= 1024).all() and (np.abs(m[~zero]) <= 2047).all()
    assert np.array_equal(m[~zero] * 2.0 ** (e[~zero] - 25.0), BY_DEFINITION[~zero])


def test_the_matrix_unit_takes_every_code_apart_alike() -> None:
    """One by one in the kernels' integers, whatever lies above a code's bits, and all of them in NumPy."""
    for high in (0, 0x1234 << 16, -1 << 16):
        found = np.array([operand(np.int32(int(code) | high)) for code in CODES])
        assert np.array_equal(found, np.stack(operands(), axis=1))


def test_the_kernels_know_every_code_as_a_number() -> None:
    for high in (0, -1 << 16):
        found = np.array([number(np.int32(int(code) | high)) for code in CODES])
        assert np.array_equal(found, value(CODES)) and np.array_equal(np.signbit(found), CODES >= 0x8000)


def test_a_number_that_has_a_code_gets_it() -> None:
    for code in range(0, 1 << 15, 7):
        n, e = (1024 + (code & 1023), code >> 10) if code >> 10 else (code, 1)
        assert half_code(0, n, e - 25, 0x7FFF) == code and half_code(1, n, e - 25, 0x7FFF) == code | 0x8000
        assert half_code(0, n << 18, e - 43, IEEE_LARGEST) == min(code, IEEE_LARGEST)


def test_rounding_is_to_nearest_even_for_every_place_of_30_bits() -> None:
    """Against exact fractions and the definition of a code's value."""
    rng, numbers = np.random.default_rng(0), [Fraction(float(number)) for number in BY_DEFINITION[: 1 << 15]]
    for _ in range(4000):
        n, e = int(rng.integers(0, 1 << int(rng.integers(1, 31)))), int(rng.integers(-64, 8))
        exact = Fraction(n) * Fraction(2) ** e
        code = int(half_code(0, n, e, 0x7FFF))
        below, here = numbers[max(code - 1, 0)], numbers[code]
        assert exact >= (below + here) / 2
        if code < 0x7FFF:
            middle = (here + numbers[code + 1]) / 2
            assert exact < middle or (exact == middle and code % 2 == 0)
        if exact == (below + here) / 2 and code:
            assert code % 2 == 0


def test_zero_is_zero_whatever_its_exponent() -> None:
    assert [half_code(s, 0, e, 0x7FFF) for s in (0, 1) for e in (-60, 0, 40)] == [0, 0, 0, 0x8000, 0x8000, 0x8000]


def test_vector_stages_take_exponent_31_for_65504() -> None:
    found = np.array([clamped(int(code)) for code in CODES], np.uint16)
    assert np.array_equal(found, np.where(EXPONENT == 31, CODES & 0x8000 | IEEE_LARGEST, CODES))
    assert np.array_equal(CLAMPED_VALUES, value(found))
