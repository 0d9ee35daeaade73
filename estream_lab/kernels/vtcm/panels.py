"""The panels of a slot in the order they are worked through, and the bytes that the steps of each touch."""

from dataclasses import dataclass
from typing import Literal

from estream_lab.kernels.layout import TILE_BYTES
from estream_lab.kernels.vtcm.plan import (
    SCALE_BYTES,
    SILU_BYTES,
    TILE,
    TilePlan,
    fp16_bytes,
    packed_bytes,
    whole_tiles,
)

Kind = Literal["fetch", "decode", "gather", "matmul", "swiglu", "scatter"]


@dataclass(frozen=True, slots=True)
class Access:
    """Bytes of a region, `offset` counted from the region's start."""

    region: str
    offset: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Panel:
    """Panel q of a slot, gate and up as one. `number` counts in its projection and row tile, `buffer` is q mod 2."""

    projection: Literal["gate_up", "down"]
    row_tile: int
    number: int
    first_row: int
    rows: int
    first_column: int
    columns: int
    buffer: int


def panels_of(plan: TilePlan, rows: int) -> list[Panel]:
    """All panels of a slot with `rows` records, by q: each row tile's gate and up panels, then its down panels."""
    projections: tuple[tuple[Literal["gate_up", "down"], int, int], ...] = (
        ("gate_up", plan.ffn, plan.ffn_columns),
        ("down", plan.hidden, plan.hidden_columns),
    )
    panels: list[Panel] = []
    for row_tile, row in enumerate(range(0, rows, plan.rows)):
        tile_rows = min(plan.rows, rows - row)
        for projection, outputs, width in projections:
            for number, column in enumerate(range(0, outputs, width)):
                columns = min(width, outputs - column)
                buffer = len(panels) % 2
                panels.append(Panel(projection, row_tile, number, row, tile_rows, column, columns, buffer))
    return panels


def accesses(plan: TilePlan, panel: Panel, kind: Kind) -> tuple[tuple[Access, ...], tuple[Access, ...]]:
    """What a step of this kind reads and writes, in the order that `Step` states."""
    rows = whole_tiles(panel.rows)
    inputs = plan.hidden if panel.projection == "gate_up" else plan.ffn
    if kind == "gather":
        return (), (Access("activations", 0, fp16_bytes(rows, plan.hidden)),)
    if kind == "fetch":
        return (), _packed(panel, inputs)
    if kind == "decode":
        return _packed(panel, inputs), _decoded(panel, inputs)
    if kind == "matmul":
        operand = Access("activations" if panel.projection == "gate_up" else "swiglu", 0, fp16_bytes(rows, inputs))
        scale = Access("scale", 0, SCALE_BYTES)
        return (operand, *_decoded(panel, inputs), scale), _outputs(panel, rows)
    if kind == "swiglu":
        silu = Access("silu", 0, SILU_BYTES)
        return (*_outputs(panel, rows), silu), _swiglu_tiles(plan, panel, rows)
    return _outputs(panel, rows), ()


def _packed(panel: Panel, inputs: int) -> tuple[Access, ...]:
    return _adjacent(f"compressed{panel.buffer}", packed_bytes(panel.columns, inputs), panel)


def _decoded(panel: Panel, inputs: int) -> tuple[Access, ...]:
    return _adjacent(f"decoded{panel.buffer}", fp16_bytes(panel.columns, inputs), panel)


def _adjacent(region: str, size: int, panel: Panel) -> tuple[Access, ...]:
    """Gate with up right behind it, or down alone."""
    return tuple(Access(region, i * size, size) for i in range(2 if panel.projection == "gate_up" else 1))


def _outputs(panel: Panel, rows: int) -> tuple[Access, ...]:
    size = fp16_bytes(rows, panel.columns)
    first = 2 * panel.buffer
    return tuple(Access(f"output{first + i}", 0, size) for i in range(2 if panel.projection == "gate_up" else 1))


def _swiglu_tiles(plan: TilePlan, panel: Panel, rows: int) -> tuple[Access, ...]:
    """The tiles of an FFN panel: as rows of the down product, 32 rows have all their F/32 tiles side by side."""
    across, first = plan.ffn // TILE, panel.first_column // TILE
    size = panel.columns // TILE * TILE_BYTES
    return tuple(Access("swiglu", (tile * across + first) * TILE_BYTES, size) for tile in range(rows // TILE))
