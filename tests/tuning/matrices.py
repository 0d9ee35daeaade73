"""The recurrence as explicit max-plus matrices, multiplied by NumPy or by a public library.

The library is algebrax, whose matrix products take any semiring. Others on PyPI were looked at and are of no use here:
mplusa 0.0.5 imports matplotlib, which it doesn't declare; minplus-algebra 1.0.16 convolves curves and has no matrices;
calrcpsp 1.0.1 has closures of task graphs but no product; semirings 0.3.1 requires graphviz and arsenal.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np
from algebrax.matrix import dot
from algebrax.semiring import ArcticSemiring

from .grids import Layer


def times(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """left ⊗ right: max in the place of a sum, sum in the place of a product."""
    return (left[:, :, None] + right[None]).max(axis=1)


def library_times(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The same by algebrax, whose matrices are dictionaries without the entries that are -∞."""
    product = dot(_sparse(left), _sparse(right), ArcticSemiring())
    dense = np.full((len(left), right.shape[1]), -np.inf)
    for row, columns in product.items():
        for column, value in columns.items():
            dense[row, column] = value
    return dense


def _sparse(matrix: np.ndarray) -> dict[int, dict[int, float]]:
    return {i: {j: float(value) for j, value in enumerate(row) if value > -np.inf} for i, row in enumerate(matrix)}


def by_matrices(
    layer: Layer,
    banks: int,
    depth: int,
    schedule: str,
    product: Callable[[np.ndarray, np.ndarray], np.ndarray] = times,
) -> float:
    """x_k = M_k ⊗ x_{k-1} from the definition: x holds q read ends, b execution ends (newest first), T^ne and 0."""
    size = depth + banks + 2
    newest_run, ready, zero = depth, depth + banks, depth + banks + 1
    state = np.zeros((size, 1))
    state[ready] = layer.non_expert
    steps = []
    for read, run in zip(layer.reads, layer.runs, strict=True):
        step = np.full((size, size), -np.inf)
        if schedule == "on-demand":
            step[0, [ready, newest_run]] = read
        else:
            step[0, [depth - 1, depth + banks - 1, zero]] = read
            if schedule == "after-routing":
                step[0, ready] = read
        step[newest_run] = step[0] + run
        step[newest_run, [ready, newest_run]] = np.maximum(step[newest_run, [ready, newest_run]], run)
        for kept in range(size):  # older ends move back by one, constants stay
            if kept not in (0, newest_run):
                step[kept, kept if kept in (ready, zero) else kept - 1] = 0
        steps.append(step)
    whole = reduce(lambda whole, step: product(step, whole), steps)  # products first, as matrices allow
    return float(product(whole, state)[newest_run, 0])
