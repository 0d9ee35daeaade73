"""A tile plan at work: its regions, the values they keep, and the steps of three units, over one order of places."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import plotly.graph_objects as go

from estream_lab.errors import EStreamError
from estream_lab.kernels.vtcm import TILE, Region, TilePlan, plan_for, steps
from estream_lab.kernels.vtcm.plan import MOST_VTCM_BYTES
from estream_lab.trace import Provenance
from estream_lab.viz.figures.lifetimes import Lifetime, lifetimes
from estream_lab.viz.figures.step_diagram import KINDS, Placed, end_of, placed, step_traces, unit_axis
from estream_lab.viz.figures.theme import GREY, dressing, key, provenance_line
from estream_lab.viz.figures.vtcm_map import (
    LIMIT,
    MARGIN,
    MOST_PLACES,
    PANELS,
    REGION_ROW,
    TIME,
    life_traces,
    map_axes,
)

MANY_PANELS = 128
"""Panels of a row tile, above which one row tile is drawn instead of two."""

UNIT_ROW, GAP = 26, 34  # px

THIN = 0.006
"""Width of the narrowest box as a share of its panel's: a pixel or two."""


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
        # laid out where there is room for anything, to show what does not fit
        layout = replace(plan_for(*shape, *tiles, MOST_VTCM_BYTES), vtcm_bytes=capacity)
        drawn = min(records, layout.rows * (1 if layout.ffn_panels + layout.hidden_panels > MANY_PANELS else 2))
        try:
            plan = plan_for(*shape, *tiles, capacity)
        except EStreamError as refused:
            return TileChoice(layout, str(refused), (), (), drawn)
        lives, order = schedule_of(plan.row_tiles(drawn), plan.ffn_panels, plan.hidden_panels)
        return TileChoice(plan, "", lives, order, drawn)

    @property
    def places(self) -> int:
        """How many places the drawn steps take."""
        return end_of(self.steps)

    def window(self, share: float) -> tuple[int, int]:
        """The first place of a window that lies so far on its way from the first (0) to the last (1), and its width."""
        shown = min(MOST_PLACES, self.places)
        return round(share * (self.places - shown)), shown


@lru_cache(32)
def schedule_of(row_tiles: int, ffn_panels: int, hidden_panels: int) -> tuple[tuple[Lifetime, ...], tuple[Placed, ...]]:
    """Values and steps of a slot of so many row tiles and panels: they depend on nothing else.

    Laid out for the smallest tiles, whose many bytes nobody needs to list: most moves of a slider keep the numbers.
    """
    plan = plan_for(TILE * hidden_panels, TILE * ffn_panels, TILE, TILE, TILE, MOST_VTCM_BYTES)
    found = steps(plan, TILE * row_tiles)
    order = placed(found)
    return tuple(lifetimes(found, [step.place for step in order])), order


def tile_plan(choice: TileChoice, share: float, provenance: Provenance) -> go.Figure:
    """`tile_plan_drawing` as a figure."""
    return go.Figure(tile_plan_drawing(choice, share, provenance))


def tile_plan_drawing(choice: TileChoice, share: float, provenance: Provenance) -> dict[str, Any]:
    """Five traces: regions, those that do not fit, values that are kept, steps, and the waits between these.

    Args:
        choice: what is drawn. share: where the window of `MOST_PLACES` places lies, from 0 (the first) to 1 (the last).
    """
    plan = choice.layout
    first, shown = choice.window(share)
    below = {"xaxis": "x2", "yaxis": "y2"}
    data = [
        *_region_traces(plan),
        *life_traces(plan.regions, choice.lives, first, shown),
        *step_traces(choice.steps, first, max(shown, 1), below),
    ]
    return {"data": data, "layout": _layout(choice, first, shown, provenance)}


def _region_traces(plan: TilePlan) -> list[dict[str, Any]]:
    """Boxes of regions to scale, with the capacity as a line among those that fit: bars are slow to draw anew."""
    capacity, most = plan.vtcm_bytes / 2**20, max(plan.vtcm_bytes, plan.used_bytes) / 2**20
    thin = THIN * most
    fit = [_box(region, row, thin) for row, region in enumerate(plan.regions) if region.end <= plan.vtcm_bytes]
    rest = [_box(region, row, thin) for row, region in enumerate(plan.regions) if region.end > plan.vtcm_bytes]
    line = (capacity, capacity + thin, -0.5, len(plan.regions) - 0.5)
    return [_area([*fit, line], GREY), _area(rest, LIMIT)]


def _box(region: Region, row: int, thin: float) -> tuple[float, float, float, float]:
    """Left, right, and the ends of the height; none is too narrow to be seen."""
    left = region.offset / 2**20
    return left, left + max(region.bytes / 2**20, thin), row - 0.4, row + 0.4


def _area(boxes: list[tuple[float, float, float, float]], colour: str) -> dict[str, Any]:
    points = [
        point
        for left, right, low, high in boxes
        for point in ((left, low), (right, low), (right, high), (left, high), (left, low), (np.nan, np.nan))
    ]
    x, y = np.array(points, np.float64).reshape(-1, 2).T
    return {
        "type": "scatter", "mode": "none", "fill": "toself", "fillcolor": colour, "hoverinfo": "skip", "x": x, "y": y,
    }  # fmt: skip


def _layout(choice: TileChoice, first: int, shown: int, provenance: Provenance) -> dict[str, Any]:
    plan, count = choice.layout, len(choice.layout.regions)
    above, below = REGION_ROW * count, 3 * UNIT_ROW
    whole = above + GAP + below
    lines = [
        provenance_line(provenance),
        PANELS,
        "order, not time: every step takes one place · a new shade is a new value, its colour that of its step",
        key({**KINDS, "does not fit": LIMIT}),
    ]
    layout = dressing("VTCM by lifetime, and the steps of three units", "<br>".join(lines), whole)
    layout["margin"] |= MARGIN
    layout |= map_axes(plan, plan.vtcm_bytes, first, shown)
    split = below / whole
    layout["yaxis"]["domain"] = [1 - above / whole, 1]
    layout["xaxis2"] |= {"anchor": "y2", "title": {"text": "place in the order (no time)"}}
    layout["yaxis2"] = {**unit_axis(), "domain": [0, split], "anchor": "x2", "automargin": False, "side": "left"}
    layout["yaxis2"] |= {"anchor": "free", "position": TIME[0]}
    return layout | {"showlegend": False}
