"""Pure functions from data to a plotly Figure. Each prints where its data comes from.

They read on light and dark pages alike: no background of their own, grey text, colours that the colour-blind can tell.
"""

from estream_lab.viz.figures.accumulator import accumulator_group, accumulator_table
from estream_lab.viz.figures.attribution import attribution_rows, outlier_curves
from estream_lab.viz.figures.beside import beside
from estream_lab.viz.figures.bound_route import bound_route
from estream_lab.viz.figures.bubbles import bubble_bars, bubble_timeline
from estream_lab.viz.figures.capacity_tiers import tier_curves
from estream_lab.viz.figures.compaction import compaction
from estream_lab.viz.figures.configurations import configuration_curves
from estream_lab.viz.figures.decoded import decode_outcomes, decode_table
from estream_lab.viz.figures.distance import distances
from estream_lab.viz.figures.equality import equality_table
from estream_lab.viz.figures.expert_loads import expert_loads
from estream_lab.viz.figures.flow_shop import order_bars
from estream_lab.viz.figures.idle import idle_bars
from estream_lab.viz.figures.lengths import length_curves
from estream_lab.viz.figures.memory import memory_bars, run_memory
from estream_lab.viz.figures.next_tokens import next_tokens
from estream_lab.viz.figures.padding import capacity_panels, padding_bars
from estream_lab.viz.figures.placement import placement_map
from estream_lab.viz.figures.plans import plan_curves
from estream_lab.viz.figures.protocol import attempts_table, explored_table, rules_table
from estream_lab.viz.figures.reads import read_bars
from estream_lab.viz.figures.records import records_table
from estream_lab.viz.figures.rivals import rival_marks
from estream_lab.viz.figures.router import router_scores, weight_sums
from estream_lab.viz.figures.routes import load_curves, route_load, routes_heatmap
from estream_lab.viz.figures.skew import skew_bars
from estream_lab.viz.figures.slots import slot_states
from estream_lab.viz.figures.step_diagram import step_diagram
from estream_lab.viz.figures.steps import step_timeline
from estream_lab.viz.figures.tile_plan import tile_plan
from estream_lab.viz.figures.tiles import packed_layout, tile_layout
from estream_lab.viz.figures.timeline import timeline
from estream_lab.viz.figures.touched import touched_curve
from estream_lab.viz.figures.vtcm_map import vtcm_map

__all__ = [
    "accumulator_group",
    "accumulator_table",
    "attempts_table",
    "attribution_rows",
    "beside",
    "bound_route",
    "bubble_bars",
    "bubble_timeline",
    "capacity_panels",
    "compaction",
    "configuration_curves",
    "decode_outcomes",
    "decode_table",
    "distances",
    "equality_table",
    "expert_loads",
    "explored_table",
    "idle_bars",
    "length_curves",
    "load_curves",
    "memory_bars",
    "next_tokens",
    "order_bars",
    "outlier_curves",
    "packed_layout",
    "padding_bars",
    "placement_map",
    "plan_curves",
    "read_bars",
    "records_table",
    "rival_marks",
    "route_load",
    "router_scores",
    "routes_heatmap",
    "rules_table",
    "run_memory",
    "skew_bars",
    "slot_states",
    "step_diagram",
    "step_timeline",
    "tier_curves",
    "tile_layout",
    "tile_plan",
    "timeline",
    "touched_curve",
    "vtcm_map",
    "weight_sums",
]
