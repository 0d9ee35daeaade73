"""Pure functions from data to a plotly Figure. Each prints where its data comes from.

They read on light and dark pages alike: no background of their own, grey text, colours that the colour-blind can tell.
"""

from estream_lab.viz.figures.compaction import compaction
from estream_lab.viz.figures.equality import equality_table
from estream_lab.viz.figures.idle import idle_bars
from estream_lab.viz.figures.memory import memory_bars, run_memory
from estream_lab.viz.figures.next_tokens import next_tokens
from estream_lab.viz.figures.routes import route_load, routes_heatmap
from estream_lab.viz.figures.timeline import timeline

__all__ = [
    "compaction",
    "equality_table",
    "idle_bars",
    "memory_bars",
    "next_tokens",
    "route_load",
    "routes_heatmap",
    "run_memory",
    "timeline",
]
