"""A configuration taken apart: what the profile says beside what was traced."""

import pytest

from estream_lab.simulate import SharedBandwidth
from estream_lab.tuning import pipe_times
from estream_lab.tuning.grids import Configuration
from estream_lab.tuning.misses import Traced, account

from .profiles import SERVICE, calibration, profile, routes

FAIR = SharedBandwidth(2e9)
SLOW = SERVICE.__class__(1, 200, 100, 20, 0, 0, 0)  # every group takes twice as long


def test_a_trace_like_the_profile_is_off_nowhere() -> None:
    loads = routes(3, 8)
    run = calibration(loads, 2, 1, FAIR)
    found = account(profile(loads, [run]), "literal", Configuration(1, 3, 2), Traced(0.5, run))
    assert found.traced_seconds == 0.5
    assert [part.name for part in found.parts] == ["non-expert work", "experts", "storage", "elsewhere"]
    for part in found.parts:
        assert part.traced == pytest.approx(part.predicted, rel=0.01)
    grid = profile(loads, [run]).grid(2)
    assert found.predicted_seconds == pytest.approx((pipe_times(grid, 3, 1)[-1] + run.outside_ns) / 1e9)


def test_the_part_that_took_longer_is_named() -> None:
    loads = routes(3, 8)
    runs = [calibration(loads, 2, depth, FAIR) for depth in (1, 2)]
    times = (
        ("experts", calibration(loads, 2, 2, FAIR, service=SLOW)),
        ("storage", calibration(loads, 2, 2, SharedBandwidth(5e8))),
        ("non-expert work", calibration(loads, 2, 2, FAIR, non_expert=9000)),
    )
    for name, seen in times:
        found = account(profile(loads, runs), "shared", Configuration(2, 3, 2), Traced(1.0, seen))
        assert found.furthest.name == name and found.furthest.traced > found.furthest.predicted


def test_reads_of_groups_without_routes_are_in_neither_storage_time() -> None:
    """The early schedule reads the first group before it is known that nothing goes there."""
    loads = routes(3, 8) + 1
    loads[:, :2] = 0
    run = calibration(loads, 2, 1, FAIR)
    assert {read.group for read in run.loadings} > {each.group for each in run.executions} == {1, 2, 3}
    found = account(profile(loads, [run]), "literal", Configuration(1, 3, 2), Traced(0.5, run))
    (storage,) = (part for part in found.parts if part.name == "storage")
    assert storage.traced == pytest.approx(storage.predicted, rel=0.01)
