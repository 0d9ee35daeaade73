"""A scale for values of either sign: order, sign and zero stay, and decades are evenly spaced."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.viz.figures.signed_scale import SignedScale

SCALE = SignedScale(0.01)


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_order_and_sign_stay(a: float, b: float) -> None:
    x, y = SCALE.place([a, b])
    assert (a < b) >= (x < y) and np.sign(x) == np.sign(a)
    assert SCALE.place([-a])[0] == -x


def test_decades_are_evenly_spaced_far_from_zero() -> None:
    assert np.diff(SCALE.place([1.0, 10.0, 100.0])) == pytest.approx([1, 1], abs=1e-3)
    assert SCALE.place([0.0, 1e-9]) == pytest.approx([0, 1e-7 / 2 / np.log(10)])


def test_error_bars_end_where_values_do() -> None:
    bars, at = SCALE.error_bars([0.0, 5.0], [0.1, 2.0]), SCALE.place([0.0, 5.0])
    assert at + bars["array"] == pytest.approx(SCALE.place([0.1, 7.0]))
    assert at - bars["arrayminus"] == pytest.approx(SCALE.place([-0.1, 3.0]))
    assert bars["symmetric"] is False


def test_ticks_name_decades_between_the_least_and_the_most() -> None:
    ticks = SCALE.ticks(-0.2, 16, 0.01, 1)
    assert ticks["ticktext"] == ["−0.1", "−0.01", "0", "+0.01", "+0.1", "+1", "+10"]
    assert ticks["tickvals"] == pytest.approx(SCALE.place([-0.1, -0.01, 0, 0.01, 0.1, 1, 10]).tolist())
    small = SignedScale(1e-6).ticks(-2e-4, 2e-6, 1e-6, 2)["ticktext"]
    assert small == ["−10<sup>−4</sup>", "−10<sup>−6</sup>", "0", "+10<sup>−6</sup>"]
    assert SignedScale(1e-6).ticks(-2e-4, 2e-6, 1e-5, 3)["ticktext"] == ["−10<sup>−5</sup>", "0"]
