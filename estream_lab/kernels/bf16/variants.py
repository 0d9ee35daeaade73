"""How this processor multiplies bf16 numbers."""

from __future__ import annotations

from estream_lab.kernels.packed.variants import Variant, describe, here

VARIANTS = (
    Variant(
        "avx512-bf16",
        "vdpbf16ps on 512 bits",
        frozenset({"avx512f", "avx512bw", "avx512vl", "avx512bf16"}),
    ),
    Variant("avx2", "fp32 vfmadd on 256 bits", frozenset({"avx2", "fma", "f16c"})),
    Variant("portable", "fp32 multiply-adds as LLVM finds them", frozenset()),
)
"""From the fastest to the one that runs anywhere. Results are the same bits.

ARM's bfdot is not among them: unless its extended mode is on, it rounds to odd, a product or a sum at a time.
"""


def variant() -> Variant:
    """The variant that this process uses."""
    return here(VARIANTS)


def description() -> str:
    """One line for `doctor`: see `describe`."""
    return describe(VARIANTS)
