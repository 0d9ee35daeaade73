"""A matrix as it would be read from a store in which it is of some kind."""

import numpy as np

from estream_lab.kernels.host.bf16 import narrow
from estream_lab.kernels.int8 import pack_q4, pack_q8
from estream_lab.kernels.projections import Weight

PACK = {"f32": lambda w: w, "bf16": narrow, "q8-32x32": pack_q8, "q4-32x32": pack_q4}


def as_kind(weight: np.ndarray, kind: str) -> Weight:
    """The matrix (N, K), of a kind in `kernels.projections.HELD`."""
    return PACK[kind](weight)
