"""Whether numbers are finite, without an array of answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.arrays import F32, as_input
from estream_lab.kernels.compiled import compiled


def all_finite(x: NDArray[np.float32]) -> bool:
    """Whether x, float32 of any shape, holds neither NaN nor infinity: `numpy.isfinite(x).all()`."""
    return bool(_all_finite(as_input(x.reshape(-1), np.float32, (None,), "x")))


@compiled
def _all_finite(x: F32) -> bool:
    wrong = 0  # counted to the end: without a way out of the loop, it is vectorised
    for i in range(len(x)):
        rest = x[i] - x[i]  # NaN where x is NaN or infinite, else 0
        wrong += rest != 0
    return wrong == 0
