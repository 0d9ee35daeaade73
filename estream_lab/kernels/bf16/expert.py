"""The fused expert operator with activations in bf16: see `packed.expert`."""

from __future__ import annotations

from functools import partial

from estream_lab.kernels.bf16.strip import lane
from estream_lab.kernels.packed import expert

expert_bank = partial(expert.expert_bank, lane)
"""Add the results of one bank's routes to y: see `packed.expert.expert_bank`, called without its first argument.

A token of which an element isn't finite, or is beyond bf16, gets no finite number from any route, and neither does one
whose SwiGLU overflows.
"""
