"""The schedule explorer: a measured request replayed on a virtual clock under other policies, banks and bandwidths."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import ipywidgets as widgets

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import POLICIES, Schedule, policy
from estream_lab.simulate import replay, service_times, shared_bandwidth
from estream_lab.trace import Trace, npu_idle, storage_idle
from estream_lab.trace.bubbles import Bubble, bubble_shares, bubbles
from estream_lab.viz.explore.base import Explorer, Picture, named
from estream_lab.viz.figures.distance import distance
from estream_lab.viz.figures.replayed import replay_drawing
from estream_lab.viz.figures.theme import milliseconds

BANDWIDTHS = (5, 7, 10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320)
"""Read bandwidths that the slider offers, in MB/s."""

MOST_QUEUE = 4

MOST_KEPT = 256
"""Replays that are kept for settings that come again."""


@dataclass(frozen=True, slots=True)
class Replayed(Picture):
    """A picture and the simulated trace that it shows."""

    trace: Trace = field(default_factory=Trace)


class ScheduleExplorer(Explorer):
    """Sliders for B, Q and bandwidth, and the schedules; every move replays the measured service times at once.

    What it shows is simulated: X_k and T^ne are the measured request's, reads share the slider's bandwidth and take on
    top what the measured ones did. The line above tells the measured time apart, and how far its own replay is from it.

    Args:
        measured: trace of one streamed request of the engine.
        policies: schedules of one's own, offered by name beside the published ones.

    Raises:
        EStreamError: a trace without service times, or without the settings that it was measured under.
    """

    def __init__(self, measured: Trace, *policies: Schedule) -> None:
        self.measured = measured
        self.times = service_times(measured)
        self.storage = shared_bandwidth(measured)
        self.schedules = {**POLICIES, **{each.name: each for each in policies}}
        facts = measured.provenance
        missing = [name for name in ("schedule", "carry_over", "banks", "queue_depth") if name not in facts]
        if missing or facts["schedule"] not in self.schedules:
            raise EStreamError(
                f"the measured trace has {f'no {missing[0]}' if missing else 'a schedule that was not given'} in its "
                "provenance: use the trace of a streamed prefill, and give the explorer a schedule of your own"
            )
        self.most_banks = max(len(times.reads_ns) for times in self.times.passes)
        self._replayed = lru_cache(MOST_KEPT)(self._replay)  # the same settings give the same trace: a slider goes back
        again, _ = self._replayed(
            str(facts["schedule"]),
            bool(facts["carry_over"]),
            int(facts["banks"]),
            min(int(facts["queue_depth"]), int(facts["banks"])),
            self.storage.bytes_per_second,
        )
        self.distance = distance(again.request_ns, measured.request_ns)
        super().__init__(self._controls())

    def picture(
        self, *, schedule: str, carry_over: bool, banks: int, queue_depth: int, read_bandwidth: float
    ) -> Replayed:
        """The replay under these settings."""
        trace, found = self._replayed(schedule, carry_over, banks, min(queue_depth, banks), read_bandwidth)
        drawing = replay_drawing(trace, found, self.most_banks, self.measured.request_ns)
        return Replayed(drawing, f"{told(trace, found)}<br>{self._apart()}", settings(trace), trace)

    def _replay(
        self, schedule: str, carry_over: bool, banks: int, queue_depth: int, read_bandwidth: float
    ) -> tuple[Trace, tuple[Bubble, ...]]:
        """The simulated trace and its bubbles."""
        policies = Policies(policy(self.schedules[schedule], carry_over=carry_over))
        storage = replace(self.storage, bytes_per_second=read_bandwidth)
        trace = replay(self.times, policies, banks=banks, queue_depth=queue_depth, storage=storage)
        return trace, bubbles(trace)

    def _apart(self) -> str:
        """What was measured, in a line of its own."""
        bandwidth = {"read_bandwidth_bytes_per_second": self.storage.bytes_per_second}
        like = settings(replace(self.measured, provenance={**self.measured.provenance, **bandwidth}))
        return (
            f"<i>Measured: {milliseconds(self.measured.request_ns)} ({like}); the same settings simulated: "
            f"{self.distance:+.1%}</i>"
        )

    def _controls(self) -> dict[str, Any]:
        facts = self.measured.provenance
        speeds = sorted({speed * 1e6 for speed in BANDWIDTHS} | {self.storage.bytes_per_second})
        limits = [(f"{speed / 1e6:.3g} MB/s", speed) for speed in speeds]
        banks, queue = int(facts["banks"]), int(facts["queue_depth"])
        over = [("each layer for itself", False), ("across layers", True)]
        return {
            "schedule": named(widgets.Dropdown(options=list(self.schedules), value=str(facts["schedule"])), "schedule"),
            "carry_over": named(widgets.Dropdown(options=over, value=bool(facts["carry_over"])), "early reads"),
            "banks": named(widgets.IntSlider(banks, 1, max(self.most_banks, banks)), "B"),
            "queue_depth": named(widgets.IntSlider(queue, 1, max(MOST_QUEUE, queue)), "Q"),
            "read_bandwidth": named(
                widgets.SelectionSlider(options=limits, value=self.storage.bytes_per_second), "reads share"
            ),
        }


def settings(trace: Trace) -> str:
    """The settings that the controls offer, as a trace has them."""
    facts = trace.provenance
    schedule = f"{facts['schedule']}{', carried over' if facts['carry_over'] else ''}"
    bandwidth = float(facts["read_bandwidth_bytes_per_second"]) / 1e6
    return f"{schedule}, B={facts['banks']} Q={facts['queue_depth']}, {bandwidth:.3g} MB/s"


def told(trace: Trace, found: Sequence[Bubble]) -> str:
    """A simulated trace in one line: its time, both idle shares, and what storage waits for most."""
    causes = bubble_shares(trace, found)["storage"]
    most = sorted(causes, key=lambda cause: -causes[cause])[:2]
    waits = ", ".join(f"{cause} {causes[cause]:.0%}" for cause in most)
    return (
        f"<b>Simulated: {milliseconds(trace.request_ns)}</b> ({settings(trace)}); "
        f"storage idle {storage_idle(trace):.0%}{f' ({waits})' if waits else ''}, compute idle {npu_idle(trace):.0%}"
    )
