"""The kernel of the max-plus recurrence: all layers of a grid, all numbers of banks at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.compiled import compiled


@compiled
def sum_layers(
    offsets: NDArray[np.int64],
    reads: NDArray[np.float64],
    runs: NDArray[np.float64],
    routed: NDArray[np.bool_],
    non_expert: NDArray[np.float64],
    queue_depth: int,
    waits: bool,
    on_demand: bool,
    times: NDArray[np.float64],
) -> None:
    """Add to times[b - 1] what every layer takes with b banks (paper, section 6).

    Args:
        offsets: (layers + 1,), where each layer's groups begin. The other arrays are those of `maxplus.LayerGrid`:
        reads: (depths, groups) in ns. runs: (groups,) in ns. routed: (groups,). non_expert: (layers,) in ns.
        queue_depth: the most reads under way; with fewer banks than that, as many as there are banks.
        waits: no read starts before T^ne. on_demand: nor before the execution of the group before has ended.
        times: (banks,) in ns, to add to.

    All numbers of banks advance group by group: each is a chain of additions that wait for each other, and so a
    processor has several of them under way.
    """
    most = 0
    for layer in range(len(non_expert)):
        most = max(most, offsets[layer + 1] - offsets[layer])
    banks = len(times)  # as far back as an index goes; q <= b
    read_end = np.zeros((banks + most, banks))  # d_k of b banks at [banks + k, b - 1]; what lies before group 0 stays 0
    run_end = np.zeros((banks + most, banks))  # f_k likewise
    ended = np.empty(banks)
    for layer in range(len(non_expert)):
        first = offsets[layer]
        groups = offsets[layer + 1] - first
        ready = non_expert[layer]
        earliest = ready if waits else 0.0
        ended[:] = ready  # with K = 0; else of no effect, as s_k >= T^ne anyway
        if routed[first : first + groups].all():
            for k in range(groups):
                for b in range(1, banks + 1):
                    q = min(queue_depth, b)
                    start = _start(read_end, run_end, banks + k, b, q, ready, earliest, on_demand)
                    read = start + reads[q - 1, first + k]
                    read_end[banks + k, b - 1] = read
                    ended[b - 1] = max(read, ended[b - 1]) + runs[first + k]
                    run_end[banks + k, b - 1] = ended[b - 1]
        else:  # how many groups have been scheduled depends on the banks
            for b in range(1, banks + 1):
                q, at = min(queue_depth, b), banks
                for group in range(first, first + groups):
                    start = _start(read_end, run_end, at, b, q, ready, earliest, on_demand)
                    if not routed[group] and (waits or start >= ready):
                        continue
                    read_end[at, b - 1] = start + reads[q - 1, group]
                    ended[b - 1] = max(read_end[at, b - 1], ended[b - 1]) + runs[group]
                    run_end[at, b - 1] = ended[b - 1]
                    at += 1
        for b in range(banks):
            times[b] += ended[b]


@compiled
def _start(
    read_end: NDArray[np.float64],
    run_end: NDArray[np.float64],
    at: int,
    b: int,
    q: int,
    ready: float,
    earliest: float,
    on_demand: bool,
) -> float:
    """a_k of the group at row ``at`` of both arrays."""
    if on_demand:
        return float(max(ready, run_end[at - 1, b - 1]))
    return float(max(earliest, max(read_end[at - q, b - 1], run_end[at - b, b - 1])))
