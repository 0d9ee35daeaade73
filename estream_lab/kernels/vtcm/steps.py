"""The steps of one slot under a tile plan: which unit does what, on which bytes of VTCM, and what it waits for.

Each row tile gathers its rows once and goes through its panels: all gate and up pairs, then all down panels (paper,
section 3). Panels are counted through, over row tiles as well, as q = 0, 1, …. Panel q has compressed buffer, decoded
buffer and output pair q mod 2 (down uses the pair's first buffer), so that no end of a phase stops the alternation: the
first down panel is fetched during the last gate and up tiles, the next row tile's first panel during the last down
tiles. What runs side by side:

    dma       fetch q+1
    vector    decode q, then SwiGLU or scatter q-1; the gather of a row tile before its first decode
    matrix    product q-1 during decode q, product q during SwiGLU or scatter q-1

Three units, each in order. The vector unit is one queue, not one for decode and one for SwiGLU: its worker threads
share the work of every step, and the order costs little. Decode q needs the buffer that product q-2 reads, so it could
not start before the step in front of it, SwiGLU q-2, can. Only if fetch q is late does SwiGLU q-1 stand behind a
decode that cannot start, and only before a row tile's first down product does that matter.

It leaves at most one wait a step (`checker` finds that these suffice and that none can go, by other means):

| step | waits for | because |
|---|---|---|
| fetch q | decode q-2 | it reads the compressed buffer |
| decode q | fetch q | it fills the compressed buffer |
| product q | decode q | it fills the decoded buffer |
| a row tile's first down product q | SwiGLU q-1 | it completes the SwiGLU tiles; decode q is before it in the queue |
| SwiGLU or scatter q | product q | it fills the output pair |
| gather | nothing | |

The vector queue implies the others. Before decode q stands SwiGLU or scatter q-2: it waited for product q-2, so the
decoded buffer is free, and it has read the output pair that product q fills. Before a gather stands the SwiGLU of the
last product with the rows that it replaces.

Steps are listed in an order that one thread may follow; any other that keeps units' order and waits gives the same
bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from estream_lab.errors import EStreamError
from estream_lab.kernels.vtcm.panels import Access, Kind, Panel, accesses, panels_of
from estream_lab.kernels.vtcm.plan import TilePlan

Unit = Literal["dma", "vector", "matrix"]
Projection = Literal["gate_up", "down", ""]

UNIT_OF: dict[Kind, Unit] = {
    "fetch": "dma",
    "decode": "vector",
    "gather": "vector",
    "matmul": "matrix",
    "swiglu": "vector",
    "scatter": "vector",
}
"""The unit that runs each kind of step."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of one unit.

    `first_row` and `rows` are records of the slot: those of the row tile. `panel`, `first_column` and `columns` are
    outputs of the projection: FFN columns for gate and up, hidden columns for down. `buffer`, 0 or 1, is q mod 2. A
    gather has panel -1, buffer -1 and all hidden columns. `waits` are indices of earlier steps.

    Accesses come in this order (gate and up each one, in projection `gate_up`):

    | kind | reads | writes |
    |---|---|---|
    | fetch | | packed gate, up; or down |
    | decode | packed gate, up; or down | decoded gate, up; or down |
    | gather | | rows, in whole tiles: those behind the last record are zeros |
    | matmul | activations or SwiGLU tiles; decoded gate, up, or down; scale | output gate, up; or down |
    | swiglu | output gate, up; SiLU table | one run of SwiGLU tiles for each 32 rows |
    | scatter | output | |
    """

    index: int
    unit: Unit
    kind: Kind
    projection: Projection
    row_tile: int
    panel: int
    first_row: int
    rows: int
    first_column: int
    columns: int
    buffer: int
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    waits: tuple[int, ...]


def steps(plan: TilePlan, rows: int) -> tuple[Step, ...]:
    """The steps of one slot with `rows` records: none for an empty slot.

    Raises:
        EStreamError: a negative number of rows.
    """
    if rows < 0:
        raise EStreamError(f"a slot cannot have {rows} rows: give 0 or more")
    panels = panels_of(plan, rows)
    order = list(_order(panels))
    index_of = {key: index for index, key in enumerate(order)}
    made = []
    for index, (kind, q) in enumerate(order):
        wait = _wait(panels, kind, q)
        waits = () if wait is None else (index_of[wait],)
        made.append(_step(plan, panels[q], index, kind, waits))
    return tuple(made)


def _order(panels: list[Panel]) -> Iterator[tuple[Kind, int]]:
    """Every step as (kind, q); a gather goes by the first panel of its row tile."""
    count = len(panels)
    if count:
        yield "fetch", 0
    for q in range(count + 1 if count else 0):
        if q + 1 < count:
            yield "fetch", q + 1
        if q < count:
            if panels[q].projection == "gate_up" and panels[q].number == 0:
                yield "gather", q
            yield "decode", q
        if q > 0:
            yield "matmul", q - 1
            yield _finish(panels[q - 1]), q - 1


def _wait(panels: list[Panel], kind: Kind, q: int) -> tuple[Kind, int] | None:
    """The one step that a step must wait for: see the module's table."""
    if kind == "fetch":
        return ("decode", q - 2) if q >= 2 else None
    if kind == "gather":
        return None
    if kind == "decode":
        return "fetch", q
    if kind == "matmul":
        first_down = panels[q].projection == "down" and panels[q].number == 0
        return ("swiglu", q - 1) if first_down else ("decode", q)
    return "matmul", q


def _finish(panel: Panel) -> Kind:
    return "swiglu" if panel.projection == "gate_up" else "scatter"


def _step(plan: TilePlan, panel: Panel, index: int, kind: Kind, waits: tuple[int, ...]) -> Step:
    gather = kind == "gather"
    reads, writes = accesses(plan, panel, kind)
    return Step(
        index=index,
        unit=UNIT_OF[kind],
        kind=kind,
        projection="" if gather else panel.projection,
        row_tile=panel.row_tile,
        panel=-1 if gather else panel.number,
        first_row=panel.first_row,
        rows=panel.rows,
        first_column=0 if gather else panel.first_column,
        columns=plan.hidden if gather else panel.columns,
        buffer=-1 if gather else panel.buffer,
        reads=reads,
        writes=writes,
        waits=waits,
    )
