"""The numerics regression: what is computed. How far figures may drift from a recorded baseline: `baseline`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from estream_lab.evaluate.attribution import Attribution, attribute
from estream_lab.evaluate.bits import Window, read_text, windows
from estream_lab.evaluate.cases import SCATTER, Case, cases
from estream_lab.evaluate.layers import by_layer
from estream_lab.evaluate.outliers import Scaled, open_variant, scaled
from estream_lab.evaluate.rounding import rounding_digest
from estream_lab.evaluate.runs import Change
from estream_lab.evaluate.variants import Variant
from estream_lab.kernels.exact import PROFILES
from estream_lab.models.tokenizer import Tokenizer

ROUTERS = {"as trained": False, "renormalised": True}

LAYERED = ("Q4_0 weights", "fp16 operands", "results stored as fp16", "SiLU table", "+ fp32 scatter: the device")
"""Cases that are tried in one layer at a time, too."""


@dataclass(frozen=True)
class Size:
    """How much is computed: windows of each text, their length, the profiles, scales of outliers, experts a token.

    Attributes:
        windows, length: of each text, and predicted tokens of each window.
        outlier_windows: of each text, for the scaled models.
        profiles: under which accumulators and whole devices are compared.
        swiglu, residual: log2 of the scales.
        top_k: experts of a token, beside the checkpoint's, with which the order of the scatter is tried.
    """

    windows: int
    length: int
    outlier_windows: int
    profiles: tuple[str, ...]
    swiglu: tuple[int, ...]
    residual: tuple[int, ...]
    top_k: tuple[int, ...]


FULL = Size(3, 256, 2, tuple(PROFILES), (0, 10, 12, 13, 14), (10, 12, 13, 14), (4, 8))
FAST = Size(1, 64, 1, tuple(PROFILES), (0, 12, 14), (12, 14), (4,))
"""The same steps and profiles at fewer scales, from a twelfth of the text."""


@dataclass(frozen=True)
class Computed:
    """All figures of the regression.

    Attributes:
        rounding: of the computer's functions (`rounding_digest`): where it is the same, so are all figures.
        routers: the model as trained, and with a renormalising router.
        orders: the model as trained, read with more experts a token: what the order of the scatter changes.
        layers: the model as trained: steps that are on in one layer alone, by step a change for each layer.
        outliers: the sweeps of scaled values, of both routers.
    """

    rounding: str
    routers: dict[str, Attribution]
    orders: tuple[Attribution, ...]
    layers: dict[str, tuple[Change, ...]]
    outliers: tuple[Scaled, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def compute(checkpoint: Path, texts: Sequence[Path], size: Size, *, threads: int = 1) -> Computed:
    """Compute everything on windows of these texts.

    Raises:
        EStreamError: a checkpoint that can't be used, or texts that can't be read or are too short.
    """
    tokenizer = Tokenizer.from_files(checkpoint)
    read = [read_text(path) for path in texts]

    def spread(count: int) -> list[Window]:
        return [window for text in read for window in windows(tokenizer, text, size.length, count)]

    found, tried = spread(size.windows), cases(profiles=size.profiles)
    routers, orders = {}, []
    with TemporaryDirectory(prefix="estream-numerics-") as name:
        folder = Path(name)
        for router, renormalise in ROUTERS.items():
            store = open_variant(checkpoint, folder, Variant(renormalise))
            routers[router] = attribute(store, found, tried, threads=threads)
            if not renormalise:
                layers = by_layer(store, found, _layered(tried), threads=threads)
        for top_k in size.top_k:
            store = open_variant(checkpoint, folder, Variant(top_k=top_k))
            orders.append(attribute(store, found, SCATTER, threads=threads))
    outliers = _sweeps(checkpoint, spread(size.outlier_windows), size, threads)
    return Computed(rounding_digest(), routers, tuple(orders), layers, tuple(outliers))


def _layered(tried: Sequence[Case]) -> list[Case]:
    """Those cases, the last by the name of what it is."""
    return [replace(case, name=case.name.removeprefix("+ fp32 scatter: ")) for case in tried if case.name in LAYERED]


def _sweeps(checkpoint: Path, found: Sequence[Window], size: Size, threads: int) -> list[Scaled]:
    made = []
    for renormalise in ROUTERS.values():
        made += scaled(checkpoint, found, "swiglu", size.swiglu, renormalise=renormalise, threads=threads)
        made += scaled(checkpoint, found, "residual", size.residual, renormalise=renormalise, threads=threads)
    return made
