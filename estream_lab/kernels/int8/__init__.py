"""The host's fast kernels: int4 or int8 weights times activations quantised to int8 in blocks of 32.

Integer dot products are exact and every sum of floats is one fixed sequence of correctly rounded operations, so results
do not depend on threads, on how rows are cut into blocks or calls, nor on the processor, bit for bit. `reference` holds
the plain NumPy version.

Read `records` (how activations are quantised), `dot` (one step, for each kind of processor), `product` (the
micro-kernel around it), `strip` and `expert` (the operator); then `strips` and `dense` (projections), `q8` and `dot_q8`
(weights of a byte).
"""

from estream_lab.kernels.int8.expert import expert_bank
from estream_lab.kernels.int8.features import VARIANTS, description, variant
from estream_lab.kernels.int8.scratch import Scratch
from estream_lab.kernels.int8.strips import Q4Strips, Q8Strips, Strips, pack_q4, pack_q8

__all__ = [
    "VARIANTS",
    "Q4Strips",
    "Q8Strips",
    "Scratch",
    "Strips",
    "description",
    "expert_bank",
    "pack_q4",
    "pack_q8",
    "variant",
]
