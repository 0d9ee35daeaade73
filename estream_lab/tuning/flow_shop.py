"""How far a schedule is from the best there could be: a layer as a flow shop of two machines, storage and NPU.

A layer's groups are jobs that are first read and then executed; banks are the buffer in between. S. M. Johnson,
"Optimal two- and three-stage production schedules with setup times included" (1954), has the order that is best for two
machines without a limit on the buffer. T^ne fits in as a job of no read that is executed first, where his rule puts it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from estream_lab.tuning.maxplus import LayerGrid, pipe_times


@dataclass(frozen=True)
class Distances:
    """Times in ns of a grid with the same banks and depth, summed over the layers.

    Attributes:
        bound_ns: no order and no number of banks takes less: Johnson's order with storage that serves one read after
            the other at its full speed, and a bank for every group.
        work_ns: what every order takes at least because both machines have their work.
        by_order_ns: what the recurrence says, by order: offline (as stored), Johnson's, and descending work.
    """

    bound_ns: float
    work_ns: float
    by_order_ns: dict[str, float]


def distances(grid: LayerGrid, banks: int, queue_depth: int) -> Distances:
    """Hold a configuration against what other orders of the groups would give, those without routes left out.

    Only the offline order can be read before the routes are known: the others are what a perfect forecast would give.

    Args:
        grid: service times. banks, queue_depth: B and Q.

    Raises:
        EStreamError: as `pipe_times`.
    """
    grid, depth = grid.needed, min(queue_depth, banks)
    own = grid.reads[depth - 1] / depth  # of the storage's time
    layers = [slice(first, end) for first, end in zip(grid.offsets[:-1], grid.offsets[1:], strict=True)]
    johnson = [johnson_order(own[each], grid.runs[each]) for each in layers]
    work = [np.argsort(-grid.runs[each], kind="stable") for each in layers]
    serial = _reordered(replace(grid, reads=own[None]), johnson)
    most = max(1, int(np.diff(grid.offsets).max(initial=0)))
    orders = {"offline": grid, "johnson": _reordered(grid, johnson), "descending work": _reordered(grid, work)}
    return Distances(
        bound_ns=float(pipe_times(serial, most, 1)[-1]),
        work_ns=sum(
            work_bound(own[each], grid.runs[each], float(non_expert))
            for each, non_expert in zip(layers, grid.non_expert, strict=True)
        ),
        by_order_ns={name: float(pipe_times(each, banks, depth)[-1]) for name, each in orders.items()},
    )


def johnson_order(reads: NDArray[np.float64], runs: NDArray[np.float64]) -> NDArray[np.int64]:
    """The order that is best with as many banks as groups: shorter reads first while execution is the longer part, then
    longer executions first.

    Args:
        reads, runs: (K,), of one layer.
    """
    first = np.flatnonzero(reads <= runs)
    rest = np.flatnonzero(reads > runs)
    order: NDArray[np.int64] = np.concatenate(
        [first[np.argsort(reads[first], kind="stable")], rest[np.argsort(-runs[rest], kind="stable")]]
    )
    return order


def work_bound(reads: NDArray[np.float64], runs: NDArray[np.float64], non_expert: float) -> float:
    """What one layer takes at least in any order: all reads and an execution, or a wait and all executions."""
    if not len(runs):
        return non_expert
    wait = max(non_expert, float(reads.min()))
    return max(wait + float(runs.sum()), float(reads.sum() + runs.min()))


def _reordered(grid: LayerGrid, orders: list[NDArray[np.int64]]) -> LayerGrid:
    """The same groups in other orders, one a layer."""
    places = [first + order for first, order in zip(grid.offsets[:-1], orders, strict=True)]
    order = np.concatenate([*places, np.empty(0, np.int64)]).astype(np.int64)
    return replace(grid, reads=grid.reads[:, order], runs=grid.runs[order])
