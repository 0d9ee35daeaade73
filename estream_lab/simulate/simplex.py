"""A minimum without derivatives: the downhill simplex of Nelder and Mead (The Computer Journal 7, 1965)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Point = NDArray[np.float64]


def minimise(
    of: Callable[[Point], float], start: ArrayLike, steps: ArrayLike, *, tolerance: float = 1e-6, most: int = 1000
) -> Point:
    """Where ``of`` is least near ``start``, each coordinate 0 or more; a local minimum, the same on every run.

    Service times are a maximum of sums, so what is fitted has kinks and no gradient there: the simplex needs none.

    Args:
        of: a function of a point (n,). Points with a negative coordinate are moved to the bound before it is asked.
        start, steps: (n,), and how far the first simplex reaches along each coordinate.
        tolerance: ends when the values at the simplex's corners are this close. most: evaluations, at the most.
    """
    origin, reach = np.asarray(start, np.float64), np.asarray(steps, np.float64)
    asked = 0

    def value(point: Point) -> tuple[float, Point]:
        nonlocal asked
        asked += 1
        inside = np.maximum(point, 0.0)
        return float(of(inside)), inside

    corners = [value(origin), *(value(origin + step) for step in np.diag(reach))]
    while asked < most:
        corners.sort(key=lambda corner: corner[0])
        if corners[-1][0] - corners[0][0] <= tolerance:
            break
        best, second, (worst, far) = corners[0][0], corners[-2][0], corners[-1]
        middle = np.mean([point for _, point in corners[:-1]], axis=0)
        tried = value(2 * middle - far)
        if tried[0] < best:
            tried = min(tried, value(3 * middle - 2 * far), key=lambda corner: corner[0])
        elif tried[0] >= second:
            towards = tried[1] if tried[0] < worst else far
            tried = value((middle + towards) / 2)
        if tried[0] < worst:
            corners[-1] = tried
        else:
            corners = [corners[0], *(value((corners[0][1] + point) / 2) for _, point in corners[1:])]
    return min(corners, key=lambda corner: corner[0])[1]
