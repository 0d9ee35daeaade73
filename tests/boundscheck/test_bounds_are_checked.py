"""The lane `boundscheck` does what its name says, and what it cannot check is known.

Numba checks array indexing in compiled functions. It does not check loads through pointers (the vector tiles of
`estream_lab.kernels.host`, which their own tests hold against NumPy) nor anything in `parallel=True` functions.
"""

import re
from pathlib import Path

import numba
import numpy as np
import pytest

PACKAGE = Path(__file__).parent.parent.parent / "estream_lab"


@numba.njit
def read(values: np.ndarray, index: int) -> float:
    return values[index]


def test_an_index_past_the_end_raises() -> None:
    assert read(np.ones(3), 2) == 1.0
    with pytest.raises(IndexError):
        read(np.ones(3), 3)


def test_no_function_is_compiled_where_bounds_are_not_checked() -> None:
    decorated = re.compile(
        r"@(numba\.)?(n?jit|vectorize|guvectorize)\([^)]*parallel\s*=\s*True|boundscheck\s*=\s*False"
    )
    assert [path.name for path in PACKAGE.rglob("*.py") if decorated.search(path.read_text())] == []
    assert decorated.search("@njit(cache=True,\n parallel=True)")
