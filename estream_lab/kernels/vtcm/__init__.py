"""The tile plan of the fused expert operator, its schedule of steps, and the checker that replays it.

`plan` cuts VTCM into regions, `steps` says which unit touches which bytes when, `checker` finds what could go wrong
without knowing how either was made.
"""

from estream_lab.kernels.layout import TILE_BYTES
from estream_lab.kernels.vtcm.checker import Overlap, check
from estream_lab.kernels.vtcm.panels import Access
from estream_lab.kernels.vtcm.plan import (
    CONSTANTS,
    MAX_COLUMNS,
    MAX_ROWS,
    TILE,
    Region,
    TilePlan,
    least_vtcm,
    plan_for,
    plan_tiles,
)
from estream_lab.kernels.vtcm.steps import UNIT_OF, Step, steps

__all__ = [
    "CONSTANTS",
    "MAX_COLUMNS",
    "MAX_ROWS",
    "TILE",
    "TILE_BYTES",
    "UNIT_OF",
    "Access",
    "Overlap",
    "Region",
    "Step",
    "TilePlan",
    "check",
    "least_vtcm",
    "plan_for",
    "plan_tiles",
    "steps",
]
