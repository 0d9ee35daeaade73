"""Where the literal recurrence agrees with the simulator, and where it can't."""

from dataclasses import replace

import pytest

from estream_lab.simulate.device import load_device
from estream_lab.simulate.fit import workload
from estream_lab.simulate.heldout import HELDOUT, fastest
from estream_lab.simulate.literal import literal
from estream_lab.simulate.soc import Settings, simulate

from .devices import MODEL, device
from .devices import workload as made_up

PHONE = load_device("phone")
LOADS = [2, 2, 4, 2, 2]


@pytest.mark.parametrize("settings", [Settings(2, 2, 1), Settings(2, 3, 1), Settings(2, 2, 2, "on-demand")])
def test_with_one_read_at_a_time_it_is_the_simulator(settings: Settings) -> None:
    found = simulate(device(), made_up(LOADS), settings)
    assert literal(device(), made_up(LOADS), settings) == pytest.approx((found.seconds, found.storage_idle))


def test_a_lone_read_is_faster_than_it_says() -> None:
    """Its third read of 100 bytes has half of 2 bytes/ns though nothing else is read: as long as the simulator's here,
    whose lone reads have 1 byte/ns; with 2 bytes/ns for a lone read the simulator's is 50 ns earlier, in each layer."""
    settings, asked = Settings(2, 2, 2), made_up(LOADS)
    assert literal(device(), asked, settings)[0] == simulate(device(), asked, settings).seconds
    fast = device(2e9, 2e9)
    assert literal(fast, asked, settings)[0] == pytest.approx(simulate(fast, asked, settings).seconds + 100e-9)


def test_on_the_phone_it_is_too_slow_with_two_banks_and_right_with_all() -> None:
    two, all_of = (Settings(8, banks, 2) for banks in (2, 8))
    assert literal(PHONE, workload(), two)[0] > 1.05 * simulate(PHONE, workload(), two).seconds
    assert literal(PHONE, workload(), all_of)[0] == pytest.approx(simulate(PHONE, workload(), all_of).seconds, rel=1e-3)


def test_held_out_figures_are_of_published_ones_and_of_the_fastest_settings() -> None:
    assert {each.published.mark for each in HELDOUT} == {"n"}
    units = {each.published.unit: each.throughput for each in HELDOUT}
    assert units == {"s": False, "tokens/s": True}
    (qwen3,) = (each for each in HELDOUT if each.id == "qwen3_1k")
    value, found = qwen3.simulated(PHONE)
    assert value == pytest.approx(1024 / found.seconds)
    assert (found.workload.model.title, found.workload.tokens) == ("Qwen3-30B-A3B", 1024)


def test_the_fastest_of_a_grid_is_no_slower_than_any_of_it() -> None:
    asked = made_up([3] * 16, model=replace(MODEL, experts=16))
    best = fastest(device(), asked)
    grid = [Settings(size, banks, 1) for size, most in ((4, 4), (8, 2), (16, 1)) for banks in range(1, most + 1)]
    assert best.seconds <= min(simulate(device(), asked, each).seconds for each in grid)
    assert best.settings.group_size in (4, 8, 16)
