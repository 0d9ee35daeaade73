"""The tile plan of the fused expert operator: how many rows and columns at a time, and what lies where in VTCM.

VTCM, the matrix unit's on-chip memory, is cut into regions by the lifetime of what they hold (paper, section 3):

| region | lives | bytes |
|---|---|---|
| `activations` | a row tile's gate and up products | M·H fp16 |
| `swiglu` | from the first SwiGLU tile to the last down product of a row tile | M·F fp16 |
| `decoded0`, `decoded1` | from decode to product, in turn | gate and up panel or one down panel: the larger, fp16 |
| `output0` … `output3` | from product to SwiGLU or scatter: two pairs, in turn | M·max(Nf, Nd) fp16 each |
| `silu` | always: one fp16 for each fp16 code | 131,072 |
| `scale` | always: the matrix unit's scale and bias | 256 |
| `compressed0`, `compressed1` | from fetch to decode, in turn | as decoded, packed in q4-32x32 |

A panel is a run of output columns with all their inputs: whole strips, so it is contiguous in a store, packed and
decoded alike. fp16 lies in tiles of 32 x 32. Regions of whole tiles come first and so need no gaps; offsets count
from a base aligned to 2048 bytes. Integers only, in one order: a C program that follows this makes the same plan.
"""

from dataclasses import dataclass

from estream_lab.errors import EStreamError
from estream_lab.kernels.layout import BLOCK_BYTES, STRIP, TILE_BYTES

TILE = STRIP
"""Rows and columns of a matrix tile."""

VECTOR_BYTES = 128
"""A vector register, and the alignment of packed panels."""

SILU_BYTES = 2 * 65536
"""One fp16 result for each fp16 code."""

SCALE_BYTES = 256
"""The scale and bias block of the matrix unit."""

CONSTANTS = ("silu", "scale")
"""Regions that are filled before the first step and never written by one."""

MOST_VTCM_BYTES = 1 << 32
"""What the device's addresses reach: it has 32 bits of them."""

MAX_ROWS = 256
"""Most rows of a row tile, if not said otherwise: few slots have more, and more leave room for narrow panels only."""

MAX_COLUMNS = 256
"""Widest panel that is chosen: transfers are hundreds of KiB by then, and the first panel's fetch overlaps nothing."""


@dataclass(frozen=True)
class Region:
    """Bytes `offset` to `offset + bytes` of VTCM, under a name."""

    name: str
    offset: int
    bytes: int

    @property
    def end(self) -> int:
        """The first byte behind the region."""
        return self.offset + self.bytes


@dataclass(frozen=True)
class TilePlan:
    """Tile sizes of one expert shape and the regions of VTCM that they need, in order of offset.

    `rows` (M) are the rows of a row tile, `ffn_columns` (Nf) the columns of a gate or up panel, `hidden_columns` (Nd)
    those of a down panel: multiples of 32. The last row tile and the last panels may be smaller.
    """

    hidden: int
    ffn: int
    rows: int
    ffn_columns: int
    hidden_columns: int
    vtcm_bytes: int
    regions: tuple[Region, ...]

    @property
    def used_bytes(self) -> int:
        """Bytes from the base to the end of the last region."""
        return max(region.end for region in self.regions)

    @property
    def ffn_panels(self) -> int:
        """Gate and up panels of a row tile: they are fetched in pairs."""
        return -(-self.ffn // self.ffn_columns)

    @property
    def hidden_panels(self) -> int:
        """Down panels of a row tile."""
        return -(-self.hidden // self.hidden_columns)

    def row_tiles(self, rows: int) -> int:
        """Row tiles of a slot with `rows` records."""
        return -(-rows // self.rows)

    def region(self, name: str) -> Region:
        """The region of this name; KeyError if there is none."""
        for region in self.regions:
            if region.name == name:
                return region
        raise KeyError(name)


def whole_tiles(rows: int) -> int:
    """Rows rounded up to whole tiles: what a row tile of `rows` rows takes up."""
    return -(-rows // TILE) * TILE


def packed_bytes(columns: int, inputs: int) -> int:
    """Bytes of a panel in q4-32x32."""
    return columns // STRIP * (inputs // STRIP) * BLOCK_BYTES


def fp16_bytes(rows: int, columns: int) -> int:
    """Bytes of `rows` x `columns` fp16 in tiles; both multiples of 32."""
    return 2 * rows * columns


def plan_tiles(hidden: int, ffn: int, rows: int, vtcm_bytes: int, *, max_rows: int = MAX_ROWS) -> TilePlan:
    """The plan for slots with `rows` records, of an expert with H = `hidden` and F = `ffn`.

    Fewest row tiles first, since each one fetches and decodes all weights again, and these as equal as tiles of 32
    allow. Then fewest panels, gate and up together counted as one: fewest and largest transfers. Among equals the
    plan that takes less VTCM, then the one with the narrower gate and up panels. For slots of any size, give `max_rows`
    for `rows`.

    Args:
        hidden: a multiple of 32.
        ffn: a multiple of 32.
        rows: records of the slot, at least 1.
        vtcm_bytes: what the device reports.
        max_rows: most rows of a row tile, a multiple of 32.

    Raises:
        EStreamError: a size that no tile fits, a capacity that no device has, or what `plan_for` says of the smallest
            tiles: 32 rows and panels of 32 columns.
    """
    _check_multiples(hidden=hidden, ffn=ffn, max_rows=max_rows)
    if rows < 1:
        raise EStreamError(f"a slot with {rows} rows needs no tile plan: give at least 1")
    if vtcm_bytes > MOST_VTCM_BYTES:
        raise EStreamError(f"VTCM of {vtcm_bytes:,} bytes is more than a 32-bit address reaches: give 4GiB or less")
    for most in range(max_rows, 0, -TILE):
        tile_rows = whole_tiles(-(-rows // -(-rows // most)))  # of the fewest row tiles of at most so many rows
        columns = _widest(hidden, ffn, tile_rows, vtcm_bytes)
        if columns is not None:
            return plan_for(hidden, ffn, tile_rows, *columns, vtcm_bytes)
    return plan_for(hidden, ffn, TILE, TILE, TILE, vtcm_bytes)


def plan_for(hidden: int, ffn: int, rows: int, ffn_columns: int, hidden_columns: int, vtcm_bytes: int) -> TilePlan:
    """The plan with given tile sizes: see `TilePlan`.

    Raises:
        EStreamError: a size that isn't a positive multiple of 32, a panel wider than its projection, or a region that
            doesn't fit: the first in order of offset, and the least capacity that works.
    """
    _check_multiples(hidden=hidden, ffn=ffn, rows=rows, ffn_columns=ffn_columns, hidden_columns=hidden_columns)
    for name, panel, whole in (("ffn", ffn_columns, ffn), ("hidden", hidden_columns, hidden)):
        if panel > whole:
            raise EStreamError(f"panels of {panel} {name} columns where there are {whole}: choose {whole} or fewer")
    placed = tuple(Region(*place) for place in _place(hidden, ffn, rows, ffn_columns, hidden_columns))
    for region in placed:
        if region.end > vtcm_bytes:
            raise EStreamError(
                f"an expert of H={hidden}, F={ffn} in tiles of {rows} rows and panels of {ffn_columns} FFN and "
                f"{hidden_columns} hidden columns does not fit: the region {region.name} takes {region.bytes:,} bytes, "
                f"{max(0, vtcm_bytes - region.offset):,} of {vtcm_bytes:,} bytes of VTCM are left; "
                + _remedy(least_vtcm(hidden, ffn), placed[-1].end, vtcm_bytes)
            )
    return TilePlan(hidden, ffn, rows, ffn_columns, hidden_columns, vtcm_bytes, placed)


def least_vtcm(hidden: int, ffn: int) -> int:
    """The least bytes of VTCM that a plan for this shape fits in: tiles of 32 rows, panels of 32 columns.

    Raises:
        EStreamError: a size that isn't a positive multiple of 32.
    """
    _check_multiples(hidden=hidden, ffn=ffn)
    return _end(hidden, ffn, TILE, TILE, TILE)


def _widest(hidden: int, ffn: int, rows: int, vtcm_bytes: int) -> tuple[int, int] | None:
    """The best (Nf, Nd) that fit beside tiles of `rows` rows, None where none do."""
    best: tuple[int, int, int, int] | None = None  # panels, bytes, Nf, Nd
    for ffn_columns in range(TILE, min(MAX_COLUMNS, ffn) + 1, TILE):
        for hidden_columns in range(TILE, min(MAX_COLUMNS, hidden) + 1, TILE):
            used = _end(hidden, ffn, rows, ffn_columns, hidden_columns)
            if used > vtcm_bytes:
                break
            panels = -(-ffn // ffn_columns) - (-hidden // hidden_columns)
            candidate = (panels, used, ffn_columns, hidden_columns)
            if best is None or candidate < best:
                best = candidate
    return None if best is None else best[2:]


def _sizes(hidden: int, ffn: int, rows: int, ffn_columns: int, hidden_columns: int) -> list[tuple[str, int]]:
    output = fp16_bytes(rows, max(ffn_columns, hidden_columns))
    decoded = max(2 * fp16_bytes(ffn_columns, hidden), fp16_bytes(hidden_columns, ffn))
    compressed = max(2 * packed_bytes(ffn_columns, hidden), packed_bytes(hidden_columns, ffn))
    return [
        ("activations", fp16_bytes(rows, hidden)),
        ("swiglu", fp16_bytes(rows, ffn)),
        ("decoded0", decoded),
        ("decoded1", decoded),
        *((f"output{i}", output) for i in range(4)),
        ("silu", SILU_BYTES),
        ("scale", SCALE_BYTES),
        ("compressed0", compressed),
        ("compressed1", compressed),
    ]


def _place(hidden: int, ffn: int, rows: int, ffn_columns: int, hidden_columns: int) -> list[tuple[str, int, int]]:
    """Every region's name, offset and bytes."""
    placed = []
    offset = 0
    for name, size in _sizes(hidden, ffn, rows, ffn_columns, hidden_columns):
        alignment = VECTOR_BYTES if name.startswith("compressed") else TILE_BYTES
        offset = -(-offset // alignment) * alignment
        placed.append((name, offset, size))
        offset += size
    return placed


def _end(hidden: int, ffn: int, rows: int, ffn_columns: int, hidden_columns: int) -> int:
    _, offset, size = _place(hidden, ffn, rows, ffn_columns, hidden_columns)[-1]
    return offset + size


def _remedy(least: int, needed: int, vtcm_bytes: int) -> str:
    """What to do where tiles that need so many bytes don't fit, and the smallest take `least`."""
    if least > vtcm_bytes:
        return f"no tiles fit: give it {least:,} bytes or more"
    return f"choose smaller tiles, which take {least:,} bytes at least, or give it {needed:,} bytes or more"


def _check_multiples(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < TILE or size % TILE:
            raise EStreamError(
                f"{name} is {size}: the matrix unit takes tiles of {TILE}, give a positive multiple of it"
            )
