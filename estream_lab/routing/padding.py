"""What fixed shapes would cost: rows that a layer's experts compute under static graphs, against exact compaction.

A graph compiled for a fixed number of rows computes all of them, filled or not, and can take no more. Exact compaction
(paper, section 3) computes the routes that there are.
"""

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from estream_lab.routing.routes import Routes


@dataclass(frozen=True)
class RowCost:
    """Rows computed for one layer.

    Attributes:
        routes: R.
        rows: rows of all experts together, computed whether or not they hold a route.
        dropped: routes that found no row: their tokens go without that expert.
    """

    routes: int
    rows: int
    dropped: int = 0

    @property
    def kept(self) -> int:
        """Routes that are computed."""
        return self.routes - self.dropped

    @property
    def padding(self) -> int:
        """Rows without a route."""
        return self.rows - self.kept


def capacity(routes: int, experts: int, factor: float) -> int:
    """Rows of each expert at a capacity factor: ceil(factor · R / E), as GShard and Switch Transformer define it."""
    if routes < 0 or experts < 1 or not factor > 0:
        raise ValueError(f"no capacity for {routes} routes, {experts} experts and a factor of {factor}")
    return ceil(round(factor * routes / experts, 9))  # 1.1 * 10 is a little above 11 in binary


def padded(counts: NDArray[np.int64], rows_each: int) -> RowCost:
    """Every expert computes `rows_each` rows; routes beyond them are dropped. `counts` is int64 (E,)."""
    over = np.maximum(counts - rows_each, 0)  # (E,)
    return RowCost(int(counts.sum()), len(counts) * rows_each, int(over.sum()))


def tiled(counts: NDArray[np.int64], row_tile: int = 1) -> RowCost:
    """Experts with routes compute them in tiles of `row_tile` rows, others nothing; a tile of 1 is exact compaction.

    A matrix unit multiplies whole tiles (32 rows on the phone's), so its last tile of each expert has idle rows.
    """
    return RowCost(int(counts.sum()), int((-(-counts // row_tile) * row_tile).sum()))


def row_costs(counts: NDArray[np.int64], tokens: int, factor: float, row_tile: int = 32) -> dict[str, RowCost]:
    """The ways to run one layer's routes, from the most rows to the fewest, each under its name.

    Args:
        counts: int64 (E,), routes of each expert.
        tokens: T. A graph that never drops a route of distinct experts, whatever comes, has T rows an expert.
        factor: of the capacity. row_tile: rows of a matrix unit's tile.
    """
    limit = capacity(int(counts.sum()), len(counts), factor)
    return {
        "each expert as many rows as tokens": padded(counts, tokens),
        "each expert as many rows as the busiest": padded(counts, int(counts.max(initial=0))),
        f"capacity factor {factor:g}": padded(counts, limit),
        f"exact, in tiles of {row_tile} rows": tiled(counts, row_tile),
        "exact compaction": tiled(counts),
    }


def dropped_routes(routes: Routes, experts: int, rows_each: int) -> NDArray[np.bool_]:
    """Which routes find no row where every expert has `rows_each` and takes them in route order: bool (R,)."""
    order = np.argsort(routes.expert, kind="stable")  # expert by expert, route order kept
    counts = routes.counts(experts)
    starts = np.repeat(counts.cumsum() - counts, counts)  # (R,): where the expert's own routes begin
    late = np.zeros(len(routes), bool)
    late[order] = np.arange(len(routes)) - starts >= rows_each
    return late
