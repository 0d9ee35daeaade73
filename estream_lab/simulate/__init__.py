"""Event simulation: the policies of a live lane on a virtual clock, with service times in place of work."""

from estream_lab.simulate.agreement import both_replays, replayed
from estream_lab.simulate.critical_path import ScheduledLayer
from estream_lab.simulate.device import Device, load_device
from estream_lab.simulate.measured import service_times, shared_bandwidth
from estream_lab.simulate.models import MODELS, ModelShape
from estream_lab.simulate.recurrence import Timetable, recurrence, timetable
from estream_lab.simulate.replay import replay
from estream_lab.simulate.soc import Settings, Simulation, simulate
from estream_lab.simulate.storage import DepthBandwidth, OwnTimes, SharedBandwidth, Storage
from estream_lab.simulate.times import LayerTimes, ServiceTimes, by_hand
from estream_lab.simulate.workload import Workload

__all__ = [
    "MODELS",
    "DepthBandwidth",
    "Device",
    "LayerTimes",
    "ModelShape",
    "OwnTimes",
    "ScheduledLayer",
    "ServiceTimes",
    "Settings",
    "SharedBandwidth",
    "Simulation",
    "Storage",
    "Timetable",
    "Workload",
    "both_replays",
    "by_hand",
    "load_device",
    "recurrence",
    "replay",
    "replayed",
    "service_times",
    "shared_bandwidth",
    "simulate",
    "timetable",
]
