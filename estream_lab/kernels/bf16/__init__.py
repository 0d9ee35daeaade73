"""The host's accurate fast kernels: int4 weights times activations in bf16, with fp32 sums.

The products are exact and every sum is one fixed sequence of correctly rounded operations, so results do not depend on
threads, on how rows are cut into blocks or calls, nor on the processor, bit for bit (of NaN alone the bits may differ).
`reference` holds the plain NumPy version.

Read `rounding` (how activations become bf16), `dot` (one step, for each kind of processor), `weights`, `product` (the
micro-kernel around them), `strip` and `expert` (the operator).
"""

from estream_lab.kernels.bf16.expert import expert_bank
from estream_lab.kernels.bf16.scratch import Scratch
from estream_lab.kernels.bf16.variants import VARIANTS, description, variant

__all__ = ["VARIANTS", "Scratch", "description", "expert_bank", "variant"]
