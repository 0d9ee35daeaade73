"""The phone profile comes near the published points; the fit finds planted numbers; what it leaves out is left out."""

from dataclasses import replace

import pytest

from estream_lab.simulate.device import load_device
from estream_lab.simulate.fit import (
    PARAMETERS,
    Point,
    fitted,
    leave_one_out,
    points,
    rounded,
    squared,
    workload,
)
from estream_lab.simulate.published import published
from estream_lab.simulate.soc import Settings, simulate
from estream_lab.simulate.workload import Workload

PHONE = load_device("phone")


def small() -> Workload:
    """One of OLMoE's layers."""
    whole = workload()
    return replace(whole, model=replace(whole.model, layers=1), loads=whole.loads[:1])


SETTINGS = (Settings(8, 2, 2), Settings(8, 3, 1), Settings(8, 8, 2), Settings(8, 3, 2, "on-demand"))


def planted() -> tuple[Point, ...]:
    """Points that the phone profile gives exactly."""
    made = [(Settings(8, 3, 2), True), *((each, False) for each in SETTINGS)]
    return tuple(
        replace(bare, value=bare.simulated(PHONE, small()))
        for settings, bubble in made
        for bare in [Point("made up", 1.0, settings, bubble)]
    )


def test_the_points_are_the_published_ones() -> None:
    found = {point.name: point.value for point in points()}
    assert list(found.values()) == pytest.approx([1.075, 1.03, 1.048, 1.03 / 0.882, 0.3441, 0.2136, 0.0905])
    assert [point.settings.banks for point in points(3)][-3:] == [3, 3, 3]
    assert published()["bubble_early"].mark == "p" and published()["qwen3_1k"].mark == "n"


@pytest.mark.parametrize("point", points(), ids=lambda point: point.name)
def test_the_phone_profile_is_within_its_tolerance_of_every_point(point: Point) -> None:
    """3 % of a latency, 2 points of a bubble rate."""
    found = point.simulated(PHONE, workload())
    assert point.tolerance == (0.02 if point.bubble else 0.03 * point.value)
    assert abs(found - point.value) <= point.tolerance
    other = PHONE.with_values({}, {"expert_rate": PHONE["expert_rate"] / 2, "dense_rate": PHONE["dense_rate"] / 2})
    assert abs(point.simulated(other, workload()) - point.value) > point.tolerance


def test_its_memory_is_what_the_published_difference_of_five_banks_implies() -> None:
    three, eight = (simulate(PHONE, workload(), Settings(8, banks, 2)).peak_bytes for banks in (3, 8))
    assert 100 * (eight / three - 1) == pytest.approx(published()["olmoe_b8_memory"].value, abs=0.01)


def test_the_phone_profile_is_where_the_fit_ends() -> None:
    """Moving any fitted number either way by two hundredths, or away from its bound, makes the distances larger."""
    here = squared(PHONE, workload(), points())
    assert rounded(PHONE) == PHONE
    for parameter in PARAMETERS:
        for change in (-0.02, 0.02):
            if isinstance(parameter.of, int):
                value = PHONE.read_bandwidths[parameter.of].value
                moved = PHONE.with_values({parameter.of: value * (1 + change)}, {})
            else:
                value = max(0.0, PHONE[parameter.of] + change * (PHONE[parameter.of] or parameter.start))
                moved = PHONE.with_values({}, {parameter.of: value})
            assert squared(moved, workload(), points()) >= here


def test_the_fit_finds_planted_numbers() -> None:
    start = PHONE.with_values({0: 1e9, 1: 9e9}, {"expert_rate": 1e12, "dense_rate": 1e12})  # where it starts is its own
    found = rounded(fitted(start, small(), planted()))
    assert squared(found, small(), planted()) < 1e-2
    for place, number in enumerate(PHONE.read_bandwidths):
        assert found.read_bandwidths[place].value == pytest.approx(number.value, rel=0.03)
    assert found["expert_rate"] == pytest.approx(PHONE["expert_rate"], rel=0.05)
    assert fitted(start, small(), planted()) == fitted(PHONE, small(), planted())


def test_a_point_left_out_does_not_steer_the_fit() -> None:
    """A false point spoils every fit that it is in; the one without it finds the planted numbers."""
    true = planted()
    false = replace(true[1], value=2 * true[1].value)
    rates = [parameter for parameter in PARAMETERS if str(parameter.of).endswith("_rate")]
    found = leave_one_out(PHONE, small(), [true[0], false, *true[2:]], rates)
    assert found[1] == pytest.approx(true[1].value, rel=0.02)
    assert any(abs(value - point.value) > point.tolerance for value, point in zip(found, true, strict=True))
