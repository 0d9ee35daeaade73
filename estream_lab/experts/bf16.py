"""The host's fast arithmetic that stays accurate: int4 weights times activations in bf16 (`kernels.bf16`)."""

from estream_lab.experts.packed import PackedKernel
from estream_lab.kernels import bf16


class Bf16Kernel(PackedKernel):
    """Experts with activations that are rounded to bf16, and fp32 sums."""

    numerics_profile = "host-bf16"
    operator = staticmethod(bf16.expert_bank)
    scratch = bf16.Scratch
