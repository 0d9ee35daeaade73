"""Live explorers: controls over one live figure each, around the engine and the figures.

`base.Explorer` is what they share; its module says how a new one is made.
"""

from estream_lab.viz.explore.accumulator import AccumulatorExplorer
from estream_lab.viz.explore.base import Explorer, Picture
from estream_lab.viz.explore.budget import BudgetExplorer
from estream_lab.viz.explore.compaction import CompactionExplorer
from estream_lab.viz.explore.pipeline import Choice, PipelineExplorer, explore
from estream_lab.viz.explore.recurrence import RecurrenceExplorer
from estream_lab.viz.explore.rivals import RivalExplorer
from estream_lab.viz.explore.routing import RoutingExplorer
from estream_lab.viz.explore.tiling import TilingExplorer

__all__ = [
    "AccumulatorExplorer",
    "BudgetExplorer",
    "Choice",
    "CompactionExplorer",
    "Explorer",
    "Picture",
    "PipelineExplorer",
    "RecurrenceExplorer",
    "RivalExplorer",
    "RoutingExplorer",
    "TilingExplorer",
    "explore",
]
