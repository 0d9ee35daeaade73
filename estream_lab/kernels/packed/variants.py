"""Which of a lane's instructions this processor has.

Decided before any instruction is emitted: LLVM aborts the process over one that the processor lacks.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass

from estream_lab.kernels.features import features


@dataclass(frozen=True)
class Variant:
    """One way to multiply nibbles by activations.

    Attributes:
        name: how results and `doctor` call it.
        instruction: the one that does the work.
        needs: processor features, by LLVM's names, that it must have.
    """

    name: str
    instruction: str
    needs: frozenset[str]


def choose(present: frozenset[str], variants: Sequence[Variant]) -> Variant:
    """The first variant for a processor with these features: the fastest."""
    return next(variant for variant in variants if variant.needs <= present)


def here(variants: Sequence[Variant]) -> Variant:
    """The variant that this process uses."""
    return choose(features(), variants)


def describe(variants: Sequence[Variant]) -> str:
    """One line: which variant is used here, and which faster ones the processor lacks what for."""
    present = features()
    chosen = choose(present, variants)
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    lacks = [
        f"{other.name} lacks {', '.join(sorted(other.needs - present))}"
        for other in variants[: variants.index(chosen)]
        if other.name.startswith("avx") == x86
    ]
    return f"{chosen.name} ({chosen.instruction})" + "".join(f"; {line}" for line in lacks)
