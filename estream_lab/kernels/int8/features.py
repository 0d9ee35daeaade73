"""Which integer dot product this processor has.

Decided before any instruction is emitted: LLVM aborts the process over one that the processor lacks.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass

from estream_lab.kernels.features import features


@dataclass(frozen=True)
class Variant:
    """One way to multiply nibbles by bytes.

    Attributes:
        name: how results and `doctor` call it.
        instruction: the one that does the work.
        needs: processor features, by LLVM's names, that it must have.
    """

    name: str
    instruction: str
    needs: frozenset[str]


VARIANTS = (
    Variant("avx512-vnni", "vpdpbusd on 512 bits", frozenset({"avx512f", "avx512bw", "avx512vl", "avx512vnni"})),
    Variant("avx-vnni", "vpdpbusd on 256 bits", frozenset({"avx2", "fma", "f16c", "avxvnni"})),
    Variant("avx2", "vpmaddubsw on 256 bits", frozenset({"avx2", "fma", "f16c"})),
    Variant("neon-dot", "sdot on 128 bits", frozenset({"neon", "dotprod"})),
    Variant("portable", "16-bit multiplications as LLVM finds them", frozenset()),
)
"""From the fastest to the one that runs anywhere. Results are the same bits."""


def choose(present: frozenset[str], variants: Sequence[Variant] = VARIANTS) -> Variant:
    """The first variant for a processor with these features: the fastest."""
    return next(variant for variant in variants if variant.needs <= present)


def variant() -> Variant:
    """The variant that this process uses."""
    return choose(features())


def description() -> str:
    """One line for `doctor`: see `describe`."""
    return describe(VARIANTS)


def describe(variants: Sequence[Variant]) -> str:
    """One line: which variant is used here, and which faster ones the processor lacks what for."""
    present = features()
    here = choose(present, variants)
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    lacks = [
        f"{other.name} lacks {', '.join(sorted(other.needs - present))}"
        for other in variants[: variants.index(here)]
        if other.name.startswith("avx") == x86
    ]
    return f"{here.name} ({here.instruction})" + "".join(f"; {line}" for line in lacks)
