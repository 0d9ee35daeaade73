"""Types of the arrays that these kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
I16 = NDArray[np.int16]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
U16 = NDArray[np.uint16]
U32 = NDArray[np.uint32]

Integer = int | np.signedinteger[Any]
"""A number within a kernel: signed, because numba makes floats of sums of signed and unsigned ones."""
