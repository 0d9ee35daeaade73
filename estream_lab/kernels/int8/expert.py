"""The fused expert operator with int8 activations: see `packed.expert`."""

from __future__ import annotations

from functools import partial

from estream_lab.kernels.int8.strip import lane
from estream_lab.kernels.packed import expert

expert_bank = partial(expert.expert_bank, lane)
"""Add the results of one bank's routes to y: see `packed.expert.expert_bank`, called without its first argument.

A token of which an element isn't finite gets NaN from every route, and so does one whose SwiGLU overflows.
"""
