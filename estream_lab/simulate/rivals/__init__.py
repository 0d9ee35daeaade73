"""Other ways to run the same request on the same simulated device: same routes, same budget, one kind of result.

What a contestant's published text doesn't say is an option with a name; nothing here was measured on its own system.
"""

from estream_lab.simulate.rivals.chunks import ChunkPadding
from estream_lab.simulate.rivals.contest import Contest
from estream_lab.simulate.rivals.contexts import Contexts
from estream_lab.simulate.rivals.hottest import HottestFirst
from estream_lab.simulate.rivals.npumoe import NpuMoe
from estream_lab.simulate.rivals.on_demand import OnDemand
from estream_lab.simulate.rivals.outcome import Contestant, Outcome, Refused, enter
from estream_lab.simulate.rivals.resident import Resident
from estream_lab.simulate.rivals.streaming import EStream
from estream_lab.simulate.rivals.whole_layers import WholeLayers

__all__ = [
    "ChunkPadding",
    "Contest",
    "Contestant",
    "Contexts",
    "EStream",
    "HottestFirst",
    "NpuMoe",
    "OnDemand",
    "Outcome",
    "Refused",
    "Resident",
    "WholeLayers",
    "enter",
]
