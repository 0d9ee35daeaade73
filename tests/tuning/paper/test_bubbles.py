"""Bubble rates of the fitted phone, and what makes a schedule in a measured trace."""

from dataclasses import replace

import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import POLICIES
from estream_lab.simulate import by_hand, load_device, replay
from estream_lab.simulate.fit import BUBBLE_TOLERANCE
from estream_lab.trace import Trace
from estream_lab.tuning.paper import bubbles

TIMES = by_hand([4, 4, 4, 4], [2, 3, 1, 2], 5)


def traces() -> dict[str, Trace]:
    return {name: replay(TIMES, Policies(each), banks=2, queue_depth=2) for name, each in POLICIES.items()}


def test_read_as_idle_storage_the_published_rates_are_near_and_as_idle_npu_far() -> None:
    runs = bubbles.simulated(load_device("phone"))
    assert list(runs) == [f"{name}, B={banks}" for banks in (8, 3) for name in ("on-demand", "after-routing", "early")]
    marks = bubbles.simulated_marks(runs)
    assert [mark.kind for mark in marks] == ["fitted", "published"] * 12
    assert marks[2].quantity == bubbles.NPU and marks[2].value == pytest.approx(100 * runs["on-demand, B=8"].npu_idle)
    away = bubbles.distances(marks)
    assert away[bubbles.STORAGE] < 100 * BUBBLE_TOLERANCE < 20 < away[bubbles.NPU]
    ours = [mark.value for mark in marks[:12:4]]
    theirs = [34.41, 21.36, 9.05]
    assert away[bubbles.STORAGE] == pytest.approx(sum(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / 3)


def test_schedules_pass_by_what_they_do_and_not_by_their_name() -> None:
    good = traces()
    bubbles.check_schedules(good)
    for name, other, told in (
        ("on-demand", "after-routing", "'on-demand' .* ns of reads fall into expert work"),
        ("after-routing", "early", "'after-routing' .* ns of reads fall into dense work"),
        ("early", "after-routing", "'early' nothing was read during non-expert work"),
    ):
        with pytest.raises(EStreamError, match=told):
            bubbles.check_schedules({**good, name: good[other]})


def test_other_routes_and_missing_schedules_are_told() -> None:
    good = traces()
    fewer = by_hand([4, 4, 4, 4], [2, 3, 1], 5, needed=[0, 1, 2])
    odd = replay(fewer, Policies(POLICIES["on-demand"]), banks=2, queue_depth=2)
    with pytest.raises(EStreamError, match="'on-demand' and 'early' ran different groups"):
        bubbles.check_schedules({**good, "on-demand": odd})
    del good["early"]
    with pytest.raises(EStreamError, match="no request under 'early'"):
        bubbles.check_schedules(good)


def test_measured_rates_are_the_traces_own() -> None:
    trace = traces()["early"]  # worked example A: 16 long, 8 of it computing for experts and 5 before
    found = bubbles.measured_marks({"early": trace}, "m")
    assert [(mark.of, mark.quantity, mark.kind) for mark in found] == [
        ("m, early", "storage idle", "measured"), ("m, early", "NPU idle", "measured"),
    ]  # fmt: skip
    assert found[1].value == pytest.approx(18.75)


def test_what_is_under_way_together_is_counted_once() -> None:
    trace = traces()["early"]  # reads 0-4, 0-4, 7-11, 10-14; runs 5-7, 7-10, 11-12, 14-16; non-expert work 0-5
    assert bubbles.overlap_ns(trace, "dense") == 4
    assert bubbles.overlap_ns(trace, "expert") == 3 + 1
    without = replace(trace, spans=tuple(span for span in trace.spans if span.unit != "storage"))
    assert bubbles.overlap_ns(without, "dense") == 0
