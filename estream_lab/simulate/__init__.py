"""Event simulation: the policies of a live lane on a virtual clock, with service times in place of work."""

from estream_lab.simulate.measured import service_times, shared_bandwidth
from estream_lab.simulate.recurrence import Timetable, recurrence, timetable
from estream_lab.simulate.replay import replay
from estream_lab.simulate.storage import DepthBandwidth, OwnTimes, SharedBandwidth, Storage
from estream_lab.simulate.times import LayerTimes, ServiceTimes, by_hand

__all__ = [
    "DepthBandwidth",
    "LayerTimes",
    "OwnTimes",
    "ServiceTimes",
    "SharedBandwidth",
    "Storage",
    "Timetable",
    "by_hand",
    "recurrence",
    "replay",
    "service_times",
    "shared_bandwidth",
    "timetable",
]
