"""This computer as a simulated device: requests come out as the profile's were."""

import numpy as np
import pytest

from estream_lab.simulate import ModelShape, Settings, SharedBandwidth, Workload, simulate
from estream_lab.tuning import pipe_times
from estream_lab.tuning.own_device import own_device

from .profiles import RECORD, SERVICE, calibration, profile, routes

MODEL = ModelShape("made up", 3, 10, 2, 32, 32, RECORD, 4096, 64, 0, 0, 1000, 8)
PER_ROW = SERVICE.__class__(1, 500, 0, 10, 0, 0, 0)  # ns a group, and a route
FAIR = SharedBandwidth(2e9)


def test_a_simulated_request_takes_what_the_recurrence_says_of_the_profile() -> None:
    loads = routes(3, 10) + 1
    runs = [calibration(loads, size, depth, FAIR, service=PER_ROW) for size in (2, 5) for depth in (1, 2)]
    found = profile(loads, runs)
    device = own_device(found, MODEL)
    assert device["group_overhead"] == pytest.approx(500, rel=1e-3)
    assert device["expert_rate"] == pytest.approx(1e9 * MODEL.route_flops / 10, rel=1e-3)
    assert [rate.value for rate in device.read_bandwidths] == pytest.approx([2e9, 2e9], rel=0.01)
    workload = Workload(MODEL, found.origin.tokens, loads, "made up")
    for size, banks in ((2, 1), (2, 3), (5, 2)):
        simulated = simulate(device, workload, Settings(size, banks, 1))
        assert simulated.seconds == pytest.approx(pipe_times(found.grid(size), banks, 1)[-1] / 1e9, rel=0.01)
        assert simulated.other_bytes == found.other_bytes
    assert device.mark == "fitted"


def test_a_profile_is_good_for_its_model_at_its_tokens_in_groups_of_any_size() -> None:
    loads = routes(3, 10) + 1
    found = profile(loads, [calibration(loads, 2, 1, FAIR)])
    device, tokens = own_device(found, MODEL), found.origin.tokens
    assert all(device.covers(MODEL.title, tokens, size) for size in (1, 2, 10))
    assert not device.covers(MODEL.title, tokens + 1, 2) and not device.covers("another", tokens, 2)


def test_deeper_queues_are_no_slower_and_overheads_not_negative() -> None:
    loads = np.array([[1, 50, 3, 20]])
    slower = [calibration(loads, 2, 1, FAIR), calibration(loads, 2, 2, SharedBandwidth(1e9))]
    steep = [run.__class__(**{**vars(run), "executions": tuple(e._replace(ns=e.ns**2) for e in run.executions)})
             for run in slower]  # fmt: skip
    device = own_device(profile(loads, steep), ModelShape("m", 1, 4, 2, 32, 32, RECORD, 4096, 64, 0, 0, 1000, 8))
    first, second = (rate.value for rate in device.read_bandwidths)
    assert second == first == pytest.approx(2e9, rel=0.01)
    assert device["group_overhead"] == 0 and device["expert_rate"] > 0
