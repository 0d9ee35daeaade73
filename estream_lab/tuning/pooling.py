"""Of requests that did the same work: those that nothing disturbed."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def undisturbed(requests: ArrayLike) -> NDArray[np.float64]:
    """Of (N, …) times of N requests that did the same work, those of the faster half of requests, all in all.

    Whatever else a computer does meanwhile can only lengthen them, and often that of a whole request.
    """
    times = np.asarray(requests, np.float64)
    order = times.reshape(len(times), -1).sum(axis=1).argsort(kind="stable")
    chosen: NDArray[np.float64] = times[order[: -(-len(times) // 2)]]
    return chosen


def pooled(requests: ArrayLike) -> NDArray[np.float64]:
    """The medians of `undisturbed` times: of (N, …), (…)."""
    found: NDArray[np.float64] = np.median(undisturbed(requests), axis=0)
    return found
