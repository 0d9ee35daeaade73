"""What the device computes, bit for bit under a named numerics profile (docs/numerics.md).

`operator` runs the fused expert operator step by step over a buffer that stands for VTCM. The functions here take and
give plain arrays of fp16 codes: the same kernels, for tests and for readers. `twin` holds them again, in plain NumPy.
"""

from estream_lab.kernels.exact.decode import decode_q4
from estream_lab.kernels.exact.elementwise import gather, scatter_add, swiglu
from estream_lab.kernels.exact.half import value
from estream_lab.kernels.exact.matmul import matmul
from estream_lab.kernels.exact.operator import ExactOperator
from estream_lab.kernels.exact.silu import silu_table
from estream_lab.kernels.profiles import DEFAULT_PROFILE, DEFAULT_VTCM_BYTES, PROFILES, Profile, profile

__all__ = [
    "DEFAULT_PROFILE",
    "DEFAULT_VTCM_BYTES",
    "PROFILES",
    "ExactOperator",
    "Profile",
    "decode_q4",
    "gather",
    "matmul",
    "profile",
    "scatter_add",
    "silu_table",
    "swiglu",
    "value",
]
