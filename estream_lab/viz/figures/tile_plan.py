"""A tile plan at work: its regions, the values they keep, and the steps of three units, over one order of places."""

from dataclasses import dataclass, replace
from typing import Any

import plotly.graph_objects as go

from estream_lab.errors import EStreamError
from estream_lab.kernels.vtcm import TilePlan, plan_for, steps
from estream_lab.trace import Provenance
from estream_lab.viz.figures.lifetimes import Lifetime, lifetimes
from estream_lab.viz.figures.step_diagram import KINDS, Placed, end_of, placed, step_traces, unit_axis
from estream_lab.viz.figures.theme import GREY, PANEL_TITLE, dressing, key, provenance_line
from estream_lab.viz.figures.vtcm_map import (
    LIMIT,
    MARGIN,
    MOST_PLACES,
    REGION_ROW,
    TIME,
    headings,
    life_traces,
    map_axes,
    region_traces,
)

UNBOUNDED = 1 << 50
"""Capacity under which any plan can be laid out, to show what does not fit."""

MANY_PANELS = 128
"""Panels of a row tile, above which one row tile is drawn instead of two."""

UNIT_ROW, GAP = 26, 34  # px


@dataclass(frozen=True)
class TileChoice:
    """Tile sizes for an expert shape and a capacity, and what comes of them.

    Attributes:
        layout: the plan, laid out whether it fits or not; `vtcm_bytes` is the capacity.
        refusal: why it does not fit, "" where it does.
        lives, steps: of the first row tile or two; empty where it does not fit.
        drawn_rows: records of these.
    """

    layout: TilePlan
    refusal: str
    lives: tuple[Lifetime, ...]
    steps: tuple[Placed, ...]
    drawn_rows: int

    @staticmethod
    def of(shape: tuple[int, int], tiles: tuple[int, int, int], capacity: int, records: int) -> "TileChoice":
        """What comes of tiles (M, Nf, Nd) for an expert (H, F), a capacity in bytes, and a slot of `records`.

        Raises:
            EStreamError: tiles that are no multiples of 32, or a panel wider than its projection.
        """
        layout = replace(plan_for(*shape, *tiles, UNBOUNDED), vtcm_bytes=capacity)
        drawn = min(records, layout.rows * (1 if layout.ffn_panels + layout.hidden_panels > MANY_PANELS else 2))
        try:
            plan = plan_for(*shape, *tiles, capacity)
        except EStreamError as refused:
            return TileChoice(layout, str(refused), (), (), drawn)
        found = steps(plan, drawn)
        order = placed(found)
        lives = lifetimes(found, [step.place for step in order])
        return TileChoice(plan, "", tuple(lives), order, drawn)

    @property
    def places(self) -> int:
        """How many places the drawn steps take."""
        return end_of(self.steps)

    def window(self, share: float) -> tuple[int, int]:
        """The first place of a window that lies so far on its way from the first (0) to the last (1), and its width."""
        shown = min(MOST_PLACES, self.places)
        return round(share * (self.places - shown)), shown


def tile_plan(choice: TileChoice, share: float, provenance: Provenance) -> go.Figure:
    """`tile_plan_drawing` as a figure."""
    return go.Figure(tile_plan_drawing(choice, share, provenance))


def tile_plan_drawing(choice: TileChoice, share: float, provenance: Provenance) -> dict[str, Any]:
    """Four traces: regions, capacity, values that are kept, steps; and the waits between these.

    Args:
        choice: what is drawn. share: where the window of `MOST_PLACES` places lies, from 0 (the first) to 1 (the last).
    """
    plan = choice.layout
    first, shown = choice.window(share)
    below = {"xaxis": "x2", "yaxis": "y2"}
    data = [
        *region_traces(plan, plan.vtcm_bytes),
        *life_traces(plan.regions, choice.lives, first, shown),
        *step_traces(choice.steps, first, max(shown, 1), below),
    ]
    return {"data": data, "layout": _layout(choice, first, shown, provenance)}


def _layout(choice: TileChoice, first: int, shown: int, provenance: Provenance) -> dict[str, Any]:
    plan, count = choice.layout, len(choice.layout.regions)
    above, below = REGION_ROW * count, 3 * UNIT_ROW
    whole = above + GAP + below
    named = {"capacity of VTCM": GREY, "does not fit": LIMIT, **KINDS}
    lines = [
        provenance_line(provenance),
        "order, not time: every step takes one place · a new shade is a new value",
        key(named),
    ]
    layout = dressing("VTCM by lifetime, and the steps of three units", "<br>".join(lines), whole, PANEL_TITLE)
    layout["margin"] |= MARGIN
    layout |= map_axes(plan, plan.vtcm_bytes, first, shown)
    split = below / whole
    layout["yaxis"]["domain"] = [1 - above / whole, 1]
    layout["xaxis2"] |= {"anchor": "y2", "title": {"text": "place in the order (no time)"}}
    layout["yaxis2"] = {**unit_axis(), "domain": [0, split], "anchor": "x2", "automargin": False, "side": "left"}
    layout["yaxis2"] |= {"anchor": "free", "position": TIME[0]}
    layout |= {"showlegend": False, "annotations": headings()}
    return layout
