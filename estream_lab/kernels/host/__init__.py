"""The host kernels: fp32 activations, correct and readable first.

Results do not depend on the number of threads, nor on how rows are cut into blocks, calls or chunks, bit for bit: every
sum is one fixed sequence of correctly rounded operations. `reference` holds a plain NumPy version of each.
"""

from estream_lab.kernels.host.attention import AttentionScratch, attention
from estream_lab.kernels.host.cache import cache_shapes, remember
from estream_lab.kernels.host.dense import BFloat16Panels, DensePanels, linear, pack_bf16, pack_dense
from estream_lab.kernels.host.expert import Scratch, expert_bank
from estream_lab.kernels.host.finite import all_finite
from estream_lab.kernels.host.norm import rms_norm, rotate_half
from estream_lab.kernels.host.projection import LinearScratch, LinearSizes, Projection, Rows
from estream_lab.kernels.host.threads import set_threads, thread_limit, threads

__all__ = [
    "AttentionScratch",
    "BFloat16Panels",
    "DensePanels",
    "LinearScratch",
    "LinearSizes",
    "Projection",
    "Rows",
    "Scratch",
    "all_finite",
    "attention",
    "cache_shapes",
    "expert_bank",
    "linear",
    "pack_bf16",
    "pack_dense",
    "remember",
    "rms_norm",
    "rotate_half",
    "set_threads",
    "thread_limit",
    "threads",
]
