"""Streaming: the prepacked store, packing, the asynchronous loader and the in-process lanes."""

from estream_lab.streaming.lane import Completion as Completion
from estream_lab.streaming.lane import InProcessLane as InProcessLane
from estream_lab.streaming.lane import Lane as Lane
from estream_lab.streaming.lane import ResidentLane as ResidentLane
from estream_lab.streaming.lane import StreamingLane as StreamingLane
from estream_lab.streaming.lane import open_lane as open_lane
from estream_lab.streaming.plan import LanePlan as LanePlan
from estream_lab.streaming.store import Store as Store
