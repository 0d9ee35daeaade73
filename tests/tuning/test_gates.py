"""The gates: at the limit is within, and each model is judged by its own choices."""

import pytest

from estream_lab.errors import EStreamError
from estream_lab.tuning.gates import MEDIAN_ABOVE_FLOOR, WORST, is_miss, verdict
from estream_lab.tuning.grids import Configuration
from estream_lab.tuning.regret import Regret

ONE, OTHER = Configuration(1, 1, 4), Configuration(1, 2, 4)


def made(regret: float, model: str = "literal") -> Regret:
    return Regret(model, "low", 1, 2, OTHER if regret else ONE, ONE, 1 + regret, 1.0, regret, 0)


def test_a_model_is_within_up_to_the_gates() -> None:
    others = [made(0.9, "shared")]
    at = verdict("literal", [made(0), made(0.01 + MEDIAN_ABOVE_FLOOR), made(WORST), *others], [0.0, 0.01, 0.5])
    assert at.within and (at.choices, at.exact, at.noise_floor) == (3, 1, 0.01)
    assert (at.median, at.worst) == (0.01 + MEDIAN_ABOVE_FLOOR, WORST)
    above = verdict("literal", [made(0), made(0.04), made(0.11)], [0.01])
    assert not above.median_within and not above.worst_within and not above.within
    assert verdict("literal", [made(0), made(0.02), made(0.11)], [0.01]).median_within
    assert not verdict("literal", [made(0), made(0.02), made(0.11)], [0.01]).within


def test_what_cannot_be_judged_is_told() -> None:
    for regrets, floors in (([made(0, "shared")], [0.0]), ([made(0)], [])):
        with pytest.raises(EStreamError, match="nothing to judge model 'literal' by"):
            verdict("literal", regrets, floors)


def test_a_choice_misses_beyond_either_gate() -> None:
    assert not is_miss(made(0.03), 0.01) and is_miss(made(0.0301), 0.01)
    assert not is_miss(made(0.1), 0.5) and is_miss(made(0.11), 0.5)
