"""The numerics regression: what is measured, and how far figures may drift from a recorded baseline.

Expert arithmetic is integers or sums in a fixed order and gives the same bits everywhere. The rest of the model is
float32 on this computer, and another processor may add it up in another order: hence tolerances, and none is wide.
"""

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from estream_lab.errors import EStreamError
from estream_lab.evaluate.attribution import Attribution, attribute
from estream_lab.evaluate.bits import Window, windows
from estream_lab.evaluate.cases import cases
from estream_lab.evaluate.outliers import Scaled, open_variant, scaled
from estream_lab.evaluate.variants import Variant
from estream_lab.kernels.exact import PROFILES
from estream_lab.models.tokenizer import Tokenizer

ROUTERS = {"as trained": False, "renormalised": True}

TOLERANCES = {
    "layer_error": (0.02, 1e-9),
    "layer_flips": (0.0, 1.0),
    "divergence_bits": (0.3, 1e-9),
    "delta_bits_per_byte": (0.02, 3e-5),
    "bits_per_byte": (0.0, 1e-4),
    "perplexity_percent": (0.02, 0.05),
}
"""Relative and absolute: a figure may differ from its baseline by the larger of the two."""

AFTER_A_FLIP = {"divergence_bits": (0.3, 2e-4), "delta_bits_per_byte": (0.02, 1e-3)}
"""The same for a row whose flips differ from the baseline's, within tolerance: one near-tie moves all that follows."""


@dataclass(frozen=True)
class Size:
    """How much is measured: windows of each text, their length, the profiles, and the scales of outliers."""

    windows: int
    length: int
    profiles: tuple[str, ...]
    swiglu: tuple[int, ...]
    residual: tuple[int, ...]


FULL = Size(3, 256, tuple(PROFILES), (0, 10, 12, 13, 14), (10, 12, 13, 14))
FAST = Size(1, 64, ("hmx_v75_g8",), (13,), (13,))


@dataclass(frozen=True)
class Measured:
    """Attribution for the model as trained and with a renormalising router, and the outliers' sweeps of both."""

    routers: dict[str, Attribution]
    outliers: tuple[Scaled, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        routers = {name: found.to_json() for name, found in self.routers.items()}
        return {"routers": routers, "outliers": [each.to_json() for each in self.outliers]}


def measure(checkpoint: Path, texts: Sequence[Path], size: Size, *, threads: int = 1) -> Measured:
    """Measure everything on windows of these texts.

    Raises:
        EStreamError: a checkpoint that can't be used, or texts that are too short.
    """
    tokenizer = Tokenizer.from_files(checkpoint)
    read = [path.read_text(encoding="utf-8") for path in texts]
    found = [window for text in read for window in windows(tokenizer, text, size.length, size.windows)]
    first = [windows(tokenizer, text, size.length, 1)[0] for text in read]
    routers = {}
    with TemporaryDirectory(prefix="estream-numerics-") as folder:
        for name, renormalise in ROUTERS.items():
            store = open_variant(checkpoint, Path(folder), Variant(renormalise))
            routers[name] = attribute(store, found, cases(profiles=size.profiles), threads=threads)
    return Measured(routers, tuple(_sweeps(checkpoint, first, size, threads)))


def _sweeps(checkpoint: Path, found: Sequence[Window], size: Size, threads: int) -> list[Scaled]:
    made = []
    for renormalise in ROUTERS.values():
        made += scaled(checkpoint, found, "swiglu", size.swiglu, renormalise=renormalise, threads=threads)
        made += scaled(checkpoint, found, "residual", size.residual, renormalise=renormalise, threads=threads)
    return made


def check(found: Mapping[str, Any], baseline: Path, name: str) -> int:
    """Hold figures to those that a file records under a name; returns how many were compared.

    Raises:
        EStreamError: a figure that left its baseline, was added or is gone; no such file or name in it.
    """
    try:
        recorded = json.loads(baseline.read_text(encoding="utf-8"))[name]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EStreamError(f"{baseline} holds no baseline '{name}' ({error!r}): record one") from error
    compared, drifted = 0, []
    mine, theirs = dict(figures(found)), dict(figures(recorded))
    for place in sorted(set(mine) ^ set(theirs)):
        drifted.append(f"{place} is {'new' if place in mine else 'gone'}")
    both = sorted(set(mine) & set(theirs))
    flipped = {place.rsplit("/", 1)[0] for place in both if "/layer_flips[" in place and mine[place] != theirs[place]}
    for place in both:
        compared += 1
        relative, absolute = _tolerance(place, flipped)
        if abs(mine[place] - theirs[place]) > max(relative * abs(theirs[place]), absolute):
            drifted.append(f"{place} is {mine[place]:g}, its baseline {theirs[place]:g}")
    if drifted:
        more = f" and {len(drifted) - 3} more" if len(drifted) > 3 else ""
        raise EStreamError(
            f"{len(drifted)} of {compared} figures left their baseline: {'; '.join(drifted[:3])}{more}. "
            "Find the cause; if the change is meant, record the baseline again."
        )
    return compared


def _tolerance(place: str, flipped: AbstractSet[str]) -> tuple[float, float]:
    row, key = place.rsplit("/", 1)
    key = key.split("[")[0].split()[0]
    return AFTER_A_FLIP[key] if row in flipped and key in AFTER_A_FLIP else TOLERANCES[key]


def figures(found: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The figures that are held to a baseline, by place: rows of each router, and the outliers."""
    made: list[tuple[str, float]] = []
    for router, attribution in found["routers"].items():
        made.append((f"{router}/bits_per_byte", attribution["bits_per_byte"]))
        for row in attribution["rows"]:
            at = f"{router}/{row['group']}/{row['name']}"
            made += [(f"{at}/{key}", row[key]) for key in ("divergence_bits", "delta_bits_per_byte")]
            for key in ("layer_error", "layer_flips"):
                made += [(f"{at}/{key}[{layer}]", value) for layer, value in enumerate(row[key])]
    for each in found["outliers"]:
        at = f"{each['what']} 2^{each['log2']}{' renormalised' if each['renormalise'] else ''}"
        made.append((f"{at}/bits_per_byte", each["bits_per_byte"]))
        made += [(f"{at}/perplexity_percent {step}", value) for step, value in each["perplexity_percent"].items()]
    return made
