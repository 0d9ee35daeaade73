"""What the device's arithmetic costs when intermediate values leave the range of fp16: a synthetic experiment.

A trained model is scaled step by step (`variants`) without changing what it computes, until its SwiGLU results or its
experts' outputs pass 65504. Every step of the arithmetic is then tried alone.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from estream_lab.evaluate.attribution import count_tokens
from estream_lab.evaluate.bits import Window
from estream_lab.evaluate.cases import OFF, Case, cases
from estream_lab.evaluate.layers import layerwise
from estream_lab.evaluate.runs import Change, change, run, size_bytes
from estream_lab.evaluate.saturation import Saturation
from estream_lab.evaluate.variants import Variant, write_variant
from estream_lab.experts.switched import watched
from estream_lab.streaming import Store
from estream_lab.streaming.pack import pack

STEPS = ("decode to fp16", "fp16 operands", "results stored as fp16", "SiLU table", "fp32 scatter")


@dataclass(frozen=True)
class Scaled:
    """A scaled model and what steps do to it.

    Attributes:
        what: which values are scaled. log2: of the factor.
        renormalise: whether the router divides a token's weights by their sum.
        windows, tokens: of the text that was read.
        bits_per_byte: with all steps off, over the Q4_0 weights of this scale: what its changes are compared with.
        values: of each of `saturation.KINDS`, how many experts compute in that run. beyond: how many fp16 would hold at
            ± 65504.
        steps: changes by each step alone, and by the device's whole arithmetic.
    """

    what: str
    log2: int
    renormalise: bool
    windows: int
    tokens: int
    bits_per_byte: float
    values: dict[str, int]
    beyond: dict[str, int]
    steps: dict[str, Change]

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def open_variant(checkpoint: Path, folder: Path, variant: Variant, quant: str = "f32") -> Store:
    """A variant's store under a folder; its origin has the checkpoint's name."""
    place = folder / variant.label
    names = checkpoint.resolve().parts[1:][-2:]  # a store is named by the last, or the one before
    written = write_variant(checkpoint, place.joinpath(*names), variant)
    pack(written, folder / f"{variant.label}.estream", quant=quant, progress=False)
    return Store(folder / f"{variant.label}.estream")


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
        EStreamError: what `write_variant` raises, or fewer than two tokens.
    """
    count_tokens(windows)
    found = []
    with TemporaryDirectory(prefix="estream-outliers-") as folder:
        for log2 in exponents:
            store = open_variant(checkpoint, Path(folder), Variant(renormalise, **{what: log2}), quant="q4_0")
            found.append(_scaled(store, windows, what, log2, threads))
    return found


def wanted() -> dict[str, Case]:
    """Steps alone, and the device under the default profile."""
    alone = {case.name: case for case in cases() if case.group == "alone" and case.name in STEPS}
    return alone | {"the device": next(case for case in cases() if case.name.endswith("the device"))}


def _scaled(store: Store, windows: Sequence[Window], what: str, log2: int, threads: int) -> Scaled:
    counted, layers = Saturation(), store.spec.layers
    off = run(store, windows, watched(layerwise([OFF] * layers), counted.see), threads=threads, begin=counted.begin)
    runs = {
        name: run(store, windows, layerwise([case.switches] * layers), threads=threads)
        for name, case in wanted().items()
    }
    return Scaled(
        what=what,
        log2=log2,
        renormalise=store.spec.router.renormalise,
        windows=len(windows),
        tokens=count_tokens(windows),
        bits_per_byte=off.bits(windows) / size_bytes(windows),
        values=counted.values,
        beyond=counted.beyond,
        steps={name: change(mine, off, windows) for name, mine in runs.items()},
    )
