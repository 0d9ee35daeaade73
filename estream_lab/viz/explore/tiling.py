"""The tiling explorer: tile sizes and on-chip memory by sliders; the plan, or the reason why there is none."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import ipywidgets as widgets

from estream_lab.errors import EStreamError
from estream_lab.kernels.vtcm import TILE, plan_tiles
from estream_lab.trace import Provenance
from estream_lab.viz.explore.base import Explorer, Picture, named
from estream_lab.viz.figures.theme import mebibytes
from estream_lab.viz.figures.tile_plan import TileChoice, tile_plan_drawing

SHAPES = {
    "OLMoE: H 2048, F 1024": (2048, 1024),
    "LFM2: H 2048, F 1792": (2048, 1792),
    "DeepSeek-V2-Lite: H 2048, F 1408": (2048, 1408),
    "Qwen3-30B-A3B: H 2048, F 768": (2048, 768),
    "Mixtral: H 4096, F 14336": (4096, 14336),
}
"""Expert shapes that are offered."""

CAPACITIES = tuple(kib << 10 for kib in (512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384))
"""Bytes of VTCM that are offered."""

MOST_ROWS, MOST_COLUMNS, MOST_RECORDS = 256, 512, 512


class TilingExplorer(Explorer):
    """Expert shape, records of the slot, tile sizes M, Nf and Nd, capacity of VTCM, and where in the order to look.

    Args:
        provenance: of the plans.
        shapes: by name, (H, F); the published ones by default.
        capacity: bytes of VTCM at the start, one of `CAPACITIES`.
    """

    def __init__(
        self,
        provenance: Provenance,
        shapes: Mapping[str, tuple[int, int]] | None = None,
        *,
        capacity: int = 8 << 20,
    ) -> None:
        self.provenance, self.shapes = provenance, dict(shapes or SHAPES)
        self.choice = lru_cache(128)(TileChoice.of)
        self.chosen = lru_cache(128)(_chosen)
        (hidden, ffn), *_ = self.shapes.values()
        shape = named(widgets.Dropdown(options=list(self.shapes)), "expert")
        shape.observe(self._other_shape, names="value")  # before the picture is drawn
        sizes = [(mebibytes(size), size) for size in CAPACITIES]
        super().__init__(
            {
                "shape": shape,
                "records": named(widgets.IntSlider(256, 1, MOST_RECORDS), "records"),
                "rows": _tiles(256, MOST_ROWS, "rows M"),
                "ffn_columns": _tiles(64, min(MOST_COLUMNS, ffn), "FFN Nf"),
                "hidden_columns": _tiles(64, min(MOST_COLUMNS, hidden), "hidden Nd"),
                "capacity": named(widgets.SelectionSlider(options=sizes, value=capacity), "VTCM"),
                "share": named(widgets.IntSlider(0, 0, 100, step=5), "window %"),
            }
        )

    def picture(
        self,
        *,
        shape: str,
        records: int,
        rows: int,
        ffn_columns: int,
        hidden_columns: int,
        capacity: int,
        share: int,
    ) -> Picture:
        """The plan of these sizes at work, or what does not fit."""
        sizes = self.shapes[shape]
        choice = self.choice(sizes, (rows, ffn_columns, hidden_columns), capacity, records)
        told = _told(choice, records, share / 100)
        settings = f"{shape}, {records} records, M={rows} Nf={ffn_columns} Nd={hidden_columns}, {mebibytes(capacity)}"
        return Picture(
            tile_plan_drawing(choice, share / 100, self.provenance),
            f"{told}<br><i>{self.chosen(*sizes, records, capacity)}</i>",
            settings,
        )

    def _other_shape(self, change: Mapping[str, Any]) -> None:
        """No panel is wider than its projection."""
        hidden, ffn = self.shapes[change["new"]]
        self.controls["ffn_columns"].max = min(MOST_COLUMNS, ffn)
        self.controls["hidden_columns"].max = min(MOST_COLUMNS, hidden)


def _tiles(start: int, most: int, name: str) -> Any:
    return named(widgets.IntSlider(min(start, most), TILE, most, step=TILE), name)


def _chosen(hidden: int, ffn: int, records: int, capacity: int) -> str:
    """The planner's own choice in words."""
    try:
        plan = plan_tiles(hidden, ffn, records, capacity)
    except EStreamError as refused:
        return f"The planner: {refused}."
    return (
        f"The planner would choose M={plan.rows} Nf={plan.ffn_columns} Nd={plan.hidden_columns}: "
        f"{plan.row_tiles(records)} × ({plan.ffn_panels} + {plan.hidden_panels}) panels, {mebibytes(plan.used_bytes)}."
    )


def _told(choice: TileChoice, records: int, share: float) -> str:
    """A plan, or its refusal, in words."""
    if choice.refusal:
        return f"<b>These tiles don't fit:</b> {choice.refusal}."
    plan = choice.layout
    tiles, panels = plan.row_tiles(records), plan.ffn_panels + plan.hidden_panels
    first, shown = choice.window(share)
    waits = sum(len(step.waits) for step in choice.steps)
    return (
        f"<b>{mebibytes(plan.used_bytes)} of {mebibytes(plan.vtcm_bytes)}</b>; row tiles: {tiles}, each of "
        f"{plan.ffn_panels} + {plan.hidden_panels} panels: {tiles * (4 * panels + 1):,} steps. Drawn: places "
        f"{first} to {first + shown - 1} of {choice.places:,} ({choice.drawn_rows} records, {waits:,} waits)."
    )
