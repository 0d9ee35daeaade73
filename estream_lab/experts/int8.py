"""The host's fastest arithmetic: int4 weights times activations in int8 (`kernels.int8`)."""

from estream_lab.experts.packed import PackedKernel
from estream_lab.kernels import int8


class Int8Kernel(PackedKernel):
    """Experts with activations that are quantised to int8 in blocks of 32."""

    numerics_profile = "host-int8"
    operator = staticmethod(int8.expert_bank)
    scratch = int8.Scratch
