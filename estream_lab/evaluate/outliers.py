"""What the device's arithmetic costs when intermediate values leave the range of fp16: a synthetic experiment.

A trained model is scaled step by step (`variants`) without changing what it computes, until its SwiGLU results or its
experts' outputs pass 65504. Every step of the arithmetic is then tried alone.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from estream_lab.evaluate.attribution import Attribution, attribute
from estream_lab.evaluate.bits import Window
from estream_lab.evaluate.cases import Case, cases
from estream_lab.evaluate.variants import Variant, write_variant
from estream_lab.streaming import Store
from estream_lab.streaming.pack import pack

STEPS = ("decode to fp16", "fp16 operands", "results stored as fp16", "SiLU table", "fp32 scatter")


@dataclass(frozen=True)
class Scaled:
    """A scaled model and what steps do to it.

    Attributes:
        what: which values are scaled. log2: of the factor.
        renormalise: whether the router divides a token's weights by their sum.
        bits_per_byte: with all steps off.
        perplexity_percent: change of perplexity by each step alone, and by the device's whole arithmetic.
        flip_share: share of routes that change.
    """

    what: str
    log2: int
    renormalise: bool
    bits_per_byte: float
    perplexity_percent: dict[str, float]
    flip_share: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def open_variant(checkpoint: Path, folder: Path, variant: Variant) -> Store:
    """A variant's store, unquantised, under a folder."""
    name = f"{variant.renormalise:d}_{variant.swiglu}_{variant.residual}"
    written = write_variant(checkpoint, folder / name, variant)
    pack(written, folder / f"{name}.estream", quant="f32", progress=False)
    return Store(folder / f"{name}.estream")


def scaled(
    checkpoint: Path,
    windows: Sequence[Window],
    what: Literal["swiglu", "residual"],
    exponents: Sequence[int],
    *,
    renormalise: bool = False,
    threads: int = 1,
) -> list[Scaled]:
    """Try each step alone, and all together, on models whose values are scaled by 2^exponent.

    Raises:
        EStreamError: what `write_variant` and `attribute` raise.
    """
    chosen = [case for case in cases() if _wanted(case)]
    found = []
    with TemporaryDirectory(prefix="estream-outliers-") as folder:
        for log2 in exponents:
            variant = Variant(renormalise, **{what: log2})
            store = open_variant(checkpoint, Path(folder), variant)
            found.append(_scaled(what, log2, attribute(store, windows, chosen, threads=threads)))
    return found


def _wanted(case: Case) -> bool:
    """Steps alone, and the device under the default profile."""
    return (case.group == "alone" and case.name in STEPS) or (
        case.group == "cumulative" and case.name.endswith("the device")
    )


def _scaled(what: str, log2: int, found: Attribution) -> Scaled:
    names = {row: row.name if row.group == "alone" else "the device" for row in found.rows}
    return Scaled(
        what,
        log2,
        found.renormalise,
        found.bits_per_byte,
        {name: row.perplexity_percent for row, name in names.items()},
        {name: row.flip_share for row, name in names.items()},
    )
