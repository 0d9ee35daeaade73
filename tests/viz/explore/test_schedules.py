"""The schedule explorer: a measured trace on the virtual clock."""

from dataclasses import replace

import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.protocol import GroupKey
from estream_lab.experts.schedule import Early, Schedule, View
from estream_lab.simulate import LayerTimes, ServiceTimes, SharedBandwidth, replay
from estream_lab.trace import Trace
from estream_lab.viz.explore.schedules import ScheduleExplorer
from tests.viz.hand_made import PROVENANCE, drawn, plain

MS = 1_000_000


def measured(**facts: str | int | float | bool) -> Trace:
    """Two layers of four groups of 80,000 bytes, at 20 MB/s 4 ms each, with 5 ms of other work; B = 2, Q = 1."""
    layer = {"reads_ns": (MS,) * 4, "runs_ns": dict.fromkeys(range(4), 2 * MS), "read_bytes": (80_000,) * 4}
    times = ServiceTimes(tuple(LayerTimes(number, 5 * MS, **layer) for number in range(2)))
    trace = replay(times, Policies(Early()), banks=2, queue_depth=1, storage=SharedBandwidth(20e6))
    return replace(trace, provenance=PROVENANCE | {"queue_depth": 1, "carry_over": False, **facts})


def test_its_first_picture_is_the_measured_setting_replayed() -> None:
    explorer = ScheduleExplorer(measured())
    assert explorer.values == {
        "schedule": "early", "carry_over": False, "banks": 2, "queue_depth": 1, "read_bandwidth": 20e6,
    }  # fmt: skip
    assert explorer.last.trace.request_ns == explorer.measured.request_ns
    assert explorer.distance == 0
    assert plain(explorer.live.shown) == drawn(explorer)


def test_it_tells_simulated_from_measured() -> None:
    explorer = ScheduleExplorer(measured())
    explorer.controls["read_bandwidth"].value = 40e6
    assert explorer.last.trace.provenance["kind"] == "simulated from measured service times"
    assert explorer.last.trace.provenance["read_bandwidth_bytes_per_second"] == 40e6
    simulated, apart = explorer.line.value.split("<br>")
    setting = "early, B=2 Q=1, 40 MB/s"
    assert simulated.startswith(f"<b>Simulated: {explorer.last.trace.request_ns / 1e6:.1f} ms</b> ({setting})")
    assert explorer.figure.layout.title.subtitle.text.startswith(f"{setting}<br>simulated from measured")
    assert f"Measured: {explorer.measured.request_ns / 1e6:.1f} ms (early, B=2 Q=1, 20 MB/s)" in apart
    assert "the same settings simulated: +0.0%" in apart


def test_every_control_reaches_the_replay() -> None:
    explorer = ScheduleExplorer(measured())
    start = explorer.last.trace.request_ns
    for control, value, fact, slower in (
        ("read_bandwidth", 10e6, "read_bandwidth_bytes_per_second", True),
        ("read_bandwidth", 20e6, "read_bandwidth_bytes_per_second", None),
        ("schedule", "on-demand", "schedule", True),
        ("schedule", "early", "schedule", None),
        ("carry_over", True, "carry_over", False),
        ("carry_over", False, "carry_over", None),
        ("banks", 1, "banks", True),
        ("banks", 4, "banks", False),
        ("queue_depth", 3, "queue_depth", None),
    ):
        explorer.controls[control].value = value
        assert explorer.last.trace.provenance[fact] == value
        assert plain(explorer.live.shown) == drawn(explorer)
        if slower is not None:
            assert (explorer.last.trace.request_ns > start) is slower
    explorer.controls["banks"].value = 2
    assert explorer.last.trace.provenance["queue_depth"] == 2  # more than B never helps
    there = explorer.last.trace
    explorer.controls["queue_depth"].value = 2
    assert explorer.last.trace is there  # kept
    explorer.controls["queue_depth"].value = 1
    assert explorer.last.trace.provenance["queue_depth"] == 1
    explorer.controls["queue_depth"].value = 3
    assert explorer.last.trace is there


def test_what_a_schedule_cannot_do_is_told_and_the_figure_stays() -> None:
    explorer = ScheduleExplorer(measured())
    before = plain(explorer.live.shown)
    explorer.controls["carry_over"].value = True
    carried = plain(explorer.live.shown)
    explorer.controls["schedule"].value = "on-demand"
    assert "only the early schedule can be carried over" in explorer.line.value
    assert plain(explorer.live.shown) == carried != before


class Last(Schedule):
    name = "last"

    def next_read(self, view: View) -> GroupKey | None:
        return view.unread[-1] if view.unread else None


def test_ones_own_schedule_is_offered_and_refused_where_it_is_wrong() -> None:
    explorer = ScheduleExplorer(measured(), Last())
    assert explorer.controls["schedule"].options == ("on-demand", "after-routing", "early", "last")
    explorer.controls["schedule"].value = "last"
    assert "the last spare bank" in explorer.line.value


def test_a_trace_that_does_not_say_how_it_was_measured_is_refused() -> None:
    trace = measured()
    with pytest.raises(EStreamError, match="no carry_over"):
        ScheduleExplorer(replace(trace, provenance=PROVENANCE))
    with pytest.raises(EStreamError, match="a schedule that was not given"):
        ScheduleExplorer(measured(schedule="mine"))
