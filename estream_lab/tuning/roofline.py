"""A roofline planner: a layer takes as long as its busier lane, storage or compute, as if they never waited.

Source: S. Williams, A. Waterman and D. Patterson, "Roofline", Communications of the ACM 52, 2009, for two lanes instead
of flops and bytes. It is what the max-plus recurrence is held against: a lower bound that knows nothing of banks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.tuning.maxplus import Candidate, Choice, LayerGrid, best


def roofline_times(grid: LayerGrid, banks: int, queue_depth: int) -> NDArray[np.float64]:
    """max(ΣL / q, T^ne + ΣX) in ns, summed over the layers, with 1, 2, … ``banks`` banks: (banks,) float64.

    As in `maxplus.pipe_times`, q is min(``queue_depth``, b) with b banks, and that is all that banks matter. Groups
    without routes take nothing.

    Raises:
        EStreamError: no banks, or a depth that the grid has no reads for.
    """
    if banks < 1 or not 1 <= queue_depth <= len(grid.reads):
        raise EStreamError(
            f"no roofline for {banks} banks at queue depth {queue_depth}: give at least one bank and a depth from 1 to "
            f"{len(grid.reads)}"
        )
    grid = grid.needed
    compute = grid.non_expert + _by_layer(grid, grid.runs)  # (layers,)
    lanes = [np.maximum(_by_layer(grid, grid.reads[q - 1]) / q, compute).sum() for q in range(1, queue_depth + 1)]
    return np.array([lanes[min(queue_depth, b) - 1] for b in range(1, banks + 1)])


def roofline_best(candidates: Sequence[Candidate], queue_depth: int) -> Choice:
    """What `maxplus.best` would choose if the roofline were true; the ties, of which there are many, go the same way.

    Raises:
        EStreamError: as `roofline_times`, or nothing to choose from.
    """
    return best(candidates, queue_depth, roofline_times)


def _by_layer(grid: LayerGrid, times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of the groups of each layer: (layers,). ``times`` is (groups,)."""
    upto = np.concatenate([[0.0], times.cumsum()])
    return np.asarray(np.diff(upto[grid.offsets]), np.float64)
