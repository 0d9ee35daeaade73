"""Which integer dot product this processor has."""

from __future__ import annotations

from estream_lab.kernels.packed.variants import Variant, describe, here

VARIANTS = (
    Variant("avx512-vnni", "vpdpbusd on 512 bits", frozenset({"avx512f", "avx512bw", "avx512vl", "avx512vnni"})),
    Variant("avx-vnni", "vpdpbusd on 256 bits", frozenset({"avx2", "fma", "f16c", "avxvnni"})),
    Variant("avx2", "vpmaddubsw on 256 bits", frozenset({"avx2", "fma", "f16c"})),
    Variant("neon-dot", "sdot on 128 bits", frozenset({"neon", "dotprod"})),
    Variant("portable", "16-bit multiplications as LLVM finds them", frozenset()),
)
"""From the fastest to the one that runs anywhere. Results are the same bits."""


def variant() -> Variant:
    """The variant that this process uses."""
    return here(VARIANTS)


def description() -> str:
    """One line for `doctor`: see `describe`."""
    return describe(VARIANTS)
