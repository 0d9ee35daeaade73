"""The accumulator's steps against numba, and against the rational model."""

from fractions import Fraction

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.kernels.exact import PROFILES, matmul
from estream_lab.kernels.exact.accumulator_trace import Line, Word, accumulator_steps, align, nearest
from estream_lab.kernels.exact.half import half_of_single
from estream_lab.kernels.exact.strips import store

from . import rational
from .groups import adversarial_groups

ROWS = [*adversarial_groups(np.random.default_rng(3), 260)]
NAMES = tuple(PROFILES)


def fraction(word: Word) -> Fraction:
    return word.bits * Fraction(2) ** word.place


def code_of(word: Word, name: str) -> int:
    if name == "ieee_fp32":
        code = int(half_of_single(np.int64(np.float32(word.value).view(np.uint32)), PROFILES[name].largest))
        return code if code & 0x7FFF else 0
    return int(store(np.int64(word.bits), np.int64(word.place + 22), PROFILES[name].largest))


@pytest.mark.parametrize("name", NAMES)
def test_the_last_step_holds_what_the_models_hold(name: str) -> None:
    for family, a, b in ROWS:
        steps = accumulator_steps(a, b, name)
        ticks, exponent = rational.accumulate(a.tolist(), b.tolist(), name, 1)
        assert fraction(steps[-1].held) == ticks * rational.TICK, family
        if name != "ieee_fp32":
            assert steps[-1].held.place + 22 == exponent, family
        padded = np.zeros((32, len(b)), np.uint16)
        padded[0] = b
        assert code_of(steps[-1].held, name) == matmul(a[None], padded, name)[0, 0], family


@pytest.mark.parametrize("name", NAMES)
def test_steps_follow_each_other_and_their_lines_add_up(name: str) -> None:
    for _, a, b in ROWS[:60]:
        steps = accumulator_steps(a, b, name)
        assert [step.first for step in steps] == list(range(0, len(a), PROFILES[name].group))
        before = Fraction(0)
        for step in steps:
            assert len(step.lines) == step.size + (0 if step.passed_over else 3 if name == "ieee_fp32" else 4)
            if not step.passed_over:
                held = next(line for line in step.lines if line.name == "accumulator")
                assert fraction(held.before) == before
                assert step.lines[-1].after == step.held
            before = fraction(step.held)
        units = sum(rational.UNITS[m] * rational.UNITS[n] for m, n in zip(a.tolist(), b.tolist(), strict=True))
        assert fraction(steps[-1].exact) == Fraction(units, 2**48)


def test_a_bit_that_is_shifted_out_sets_the_last_one() -> None:
    assert align(Word(0b1001, 0), 3) == Word(1, 3)
    assert align(Word(0b10001, 0), 3) == Word(0b11, 3)
    assert align(Word(0b10000, 0), 3) == Word(0b10, 3)
    assert align(Word(-1, 0), 3) == Word(-1, 3)
    assert align(Word(-16, 0), 3) == Word(-2, 3)
    line = Line("", Word(0b10001, 0), Word(0b11, 3))
    assert (line.cut, line.lost) == (3, True)
    assert not Line("", Word(0b10000, 0), Word(0b10, 3)).lost


def test_ties_go_to_even() -> None:
    assert [nearest(Word(n, 0), 3).bits for n in (0b1001, 0b1011, 0b1010, -0b1001, -0b1011)] == [4, 6, 5, -4, -6]
    assert nearest(Word(5, 2), 3) == Word(5, 2)


def test_a_group_of_zeros_is_passed_over() -> None:
    a, b = np.zeros(32, np.uint16), np.full(32, 0x3C00, np.uint16)
    a[8:] = 0x3C00
    steps = accumulator_steps(a, b, "hmx_v75_g8")
    assert [step.passed_over for step in steps] == [True, False, False, False]
    assert (steps[0].held.bits, steps[-1].held.value) == (0, 24.0)


@pytest.mark.parametrize(("name", "least"), [("hmx_v75_g8", -64), ("hmx_v81_g8_a39", -256)])
def test_zero_products_that_are_not_passed_over_leave_the_lowest_exponent(name: str, least: int) -> None:
    a, b = np.zeros((2, 32), np.uint16)
    a[::2], b[1::2] = 0x3C00, 0x3C00
    steps = accumulator_steps(a, b, name)
    assert [step.passed_over for step in steps] == [False] * 4
    assert {(step.held.bits, step.held.place) for step in steps} == {(0, least - 22)}


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="both must be"):
        accumulator_steps(np.zeros(32, np.uint16), np.zeros(64, np.uint16), "hmx_v75_g8")
    with pytest.raises(ValueError, match="multiple of 32"):
        accumulator_steps(np.zeros(8, np.uint16), np.zeros(8, np.uint16), "hmx_v75_g8")
    with pytest.raises(EStreamError, match="no numerics profile"):
        accumulator_steps(np.zeros(32, np.uint16), np.zeros(32, np.uint16), "hmx")
