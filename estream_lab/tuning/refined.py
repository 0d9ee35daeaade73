"""A finer model than the recurrence: reads share the storage with as many as are under way at that moment.

The recurrence gives every read the time that it has in a full queue. Here a read among n goes on at the speed of L at
depth n, so that a lone one is as fast as at depth 1, and it starts when a queue place is free, whichever read left it.
The service times are those of the same grid; neither the simulator nor a sweep is asked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.compiled import compiled
from estream_lab.tuning.maxplus import LayerGrid, check_request

ENDED = 1e-9  # of a read, what additions may leave over


def shared_times(grid: LayerGrid, banks: int, queue_depth: int) -> NDArray[np.float64]:
    """As `maxplus.pipe_times` of the early schedule, with reads that share: (banks,) float64, ns.

    Raises:
        EStreamError: no banks, or a depth that the grid has no reads for.
    """
    check_request(grid, banks, queue_depth)
    times = np.zeros(banks)
    _sum_layers(grid.offsets, grid.reads, grid.runs, grid.non_expert, int(queue_depth), times)
    return times


@compiled
def _sum_layers(
    offsets: NDArray[np.int64],
    reads: NDArray[np.float64],
    runs: NDArray[np.float64],
    non_expert: NDArray[np.float64],
    queue_depth: int,
    times: NDArray[np.float64],
) -> None:
    """Add to times[b - 1] what every layer takes with b banks."""
    for b in range(1, len(times) + 1):
        for layer in range(len(non_expert)):
            groups = slice(offsets[layer], offsets[layer + 1])
            times[b - 1] += _layer(reads[:, groups], runs[groups], non_expert[layer], b, min(queue_depth, b))


@compiled
def _layer(reads: NDArray[np.float64], runs: NDArray[np.float64], ready: float, b: int, q: int) -> float:
    """T_pipe of one layer, from one end of a read, or release of a bank, to the next."""
    count = len(runs)
    left = np.zeros(count)  # of each read, a share of 1
    run_end = np.zeros(count)  # f_k of the first `arrived` groups
    under_way = np.zeros(q, np.int64)
    now, issued, outstanding, arrived = 0.0, 0, 0, 0
    while arrived < count:
        while outstanding < q and issued < count and _bank_free(issued, b, arrived, run_end, now):
            left[issued] = 1.0
            under_way[outstanding] = issued
            outstanding += 1
            issued += 1
        until = np.inf
        for place in range(outstanding):
            k = under_way[place]
            until = min(until, now + left[k] * reads[outstanding - 1, k])
        if outstanding < q and issued < count and 0 <= issued - b < arrived:
            until = min(until, run_end[issued - b])
        kept = 0
        for place in range(outstanding):
            k = under_way[place]
            whole = reads[outstanding - 1, k]
            left[k] = left[k] - (until - now) / whole if whole > 0 else 0.0
            if left[k] > ENDED:
                under_way[kept] = k
                kept += 1
            else:
                left[k] = 0.0
        outstanding, now = kept, until
        while arrived < issued and left[arrived] == 0.0:  # executed in order, whichever read ended first
            before = run_end[arrived - 1] if arrived else 0.0
            run_end[arrived] = max(now, max(ready, before)) + runs[arrived]
            arrived += 1
    return run_end[count - 1] if count else ready


@compiled
def _bank_free(k: int, b: int, arrived: int, run_end: NDArray[np.float64], now: float) -> bool:
    """Whether the bank of read k is free now: its consumer before has finished."""
    return k < b or (k - b < arrived and run_end[k - b] <= now)
