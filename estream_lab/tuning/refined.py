"""A finer model than the recurrence: reads share the storage with as many as are under way at that moment.

The recurrence gives every read the time that it has in a full queue. Here a read among n goes on at the speed of L at
depth n, so that a lone one is as fast as at depth 1, and it starts when a queue place is free, whichever read left it.
A speculative group gives its bank back as soon as it is read and T^ne is over; no execution waits for it.
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
    _sum_layers(grid.offsets, grid.reads, grid.runs, grid.routed, grid.non_expert, int(queue_depth), times)
    return times


@compiled
def _sum_layers(
    offsets: NDArray[np.int64],
    reads: NDArray[np.float64],
    runs: NDArray[np.float64],
    routed: NDArray[np.bool_],
    non_expert: NDArray[np.float64],
    queue_depth: int,
    times: NDArray[np.float64],
) -> None:
    """Add to times[b - 1] what every layer takes with b banks."""
    for b in range(1, len(times) + 1):
        for layer in range(len(non_expert)):
            groups = slice(offsets[layer], offsets[layer + 1])
            times[b - 1] += _layer(
                reads[:, groups], runs[groups], routed[groups], non_expert[layer], b, min(queue_depth, b)
            )


@compiled
def _layer(
    reads: NDArray[np.float64], runs: NDArray[np.float64], routed: NDArray[np.bool_], ready: float, b: int, q: int
) -> float:
    """T_pipe of one layer, from one end of a read, or release of a bank, to the next."""
    count = len(runs)
    left = np.zeros(count)  # of each read, a share of 1
    released = np.full(count, np.inf)  # when a group's bank is free again, as far as that is known
    under_way = np.zeros(q, np.int64)
    now, executed, ended = 0.0, ready, ready  # when the last execution so far ends, and the last release
    issued, outstanding, oldest, in_line = 0, 0, 0, 0  # in_line: the next group to execute
    while True:
        while issued < count:
            if not routed[issued] and now >= ready:
                released[issued] = now  # skipped
            elif outstanding < q and _held(released, oldest, issued, now) < b:
                left[issued] = 1.0
                under_way[outstanding] = issued
                outstanding += 1
            else:
                break
            issued += 1
        until = np.inf
        for place in range(outstanding):
            k = under_way[place]
            until = min(until, now + left[k] * reads[outstanding - 1, k])
        if outstanding < q and issued < count:
            for k in range(oldest, issued):
                if released[k] > now:
                    until = min(until, released[k])
        if until == np.inf:
            return ended
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
                if not routed[k]:  # nobody waits for it
                    released[k] = max(until, ready)
                    ended = max(ended, released[k])
        outstanding, now = kept, until
        while in_line < issued and (not routed[in_line] or left[in_line] == 0.0):  # whichever read ended first
            if routed[in_line]:
                executed = max(now, executed) + runs[in_line]
                released[in_line] = executed
                ended = max(ended, executed)
            in_line += 1
        while oldest < issued and released[oldest] <= now:
            oldest += 1


@compiled
def _held(released: NDArray[np.float64], oldest: int, issued: int, now: float) -> int:
    """Banks that are not free now."""
    held = 0
    for k in range(oldest, issued):
        held += released[k] > now
    return held
