"""How far the figures of the numerics regression may drift from a recorded baseline.

Where a computer rounds NumPy's functions as the one that recorded did (`rounding_digest`), every figure is the same,
and is held so. Elsewhere the last bit of a router's weight may differ. Few numbers change, but each may fall to the
other side where it is rounded to fp16, and then the change that a step makes is another draw of the same size: such
figures are held to their order of magnitude.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from estream_lab.notebooks.baseline import Figure, hold, recorded

SAME_ROUNDING = (1e-6, 0.0)
"""Relative and absolute: a figure may differ from its baseline by the larger of the two."""

ELSEWHERE = {
    "layer_error": (0.1, 1e-9),
    "layer_flips": (0.0, 1.0),
    "flip_share": (0.0, 1e-12),
    "logits_error": (0.15, 1e-8),
    "divergence_bits": (0.4, 1e-12),
    "delta_bits_per_byte": (0.02, 1e-4),
    "standard_error": (0.4, 1e-7),
    "perplexity_percent": (0.02, 7e-3),
    "perplexity_error": (0.4, 1e-5),
    "bits_per_byte": (0.0, 2e-6),
    "values": (0.0, 0.0),
    "beyond": (0.01, 2.0),
}
"""The same where functions round otherwise: some twice of what a processor without AVX2 changes, as
`python -m tools.numerics_table --compare` prints it.
"""

OF_ACCUMULATORS = {
    "layer_error": (0.1, 3e-5),
    "logits_error": (0.5, 1e-8),
    "divergence_bits": (0.8, 1e-12),
    "standard_error": (0.6, 1e-7),
    "perplexity_error": (0.6, 1e-5),
}
"""The same for accumulators: they store another code than an exact sum for a few values only, elsewhere for others.

An error of a layer was seen to be twenty times its baseline, of 64 tokens of two texts each.
"""

LEAST = {
    "layer_error": 1 / 40,
    "logits_error": 0.0,
    "divergence_bits": 0.0,
    "delta_bits_per_byte": 0.0,
    "standard_error": 0.0,
    "perplexity_percent": 0.0,
    "perplexity_error": 0.0,
}
"""Of these, more than such a part of a baseline that isn't 0 must be left, whatever rounds; one that is 0 stays so."""

AFTER_A_FLIP = {
    "flip_share": (0.0, 2e-3),
    "logits_error": (0.3, 1e-2),
    "divergence_bits": (0.3, 2e-4),
    "delta_bits_per_byte": (0.02, 1e-3),
    "standard_error": (0.3, 1e-3),
    "perplexity_percent": (0.02, 0.1),
    "perplexity_error": (0.3, 0.1),
}
"""The same for a row whose flips differ from the baseline's: one near-tie moves all that follows."""


def check(found: Mapping[str, Any], baseline: Path, name: str) -> int:
    """Hold figures to those that a file records under a name; returns how many were compared.

    Raises:
        EStreamError: a figure that left its baseline, was added or is gone; no such file or name in it.
    """
    theirs_json = recorded(baseline, name)
    mine, theirs = figures(found), figures(theirs_json)
    both = set(mine) & set(theirs)
    flipped = {at.rsplit("/", 1)[0] for at in both if "/layer_flips[" in at and mine[at] != theirs[at]}
    same = found["rounding"] == theirs_json["rounding"]

    def near(at: str) -> bool:
        tolerance = SAME_ROUNDING if same else _elsewhere(at, flipped)
        return _near(mine[at], theirs[at], *tolerance, LEAST.get(_key(at)))

    return hold(mine, theirs, near)


def figures(found: Mapping[str, Any]) -> dict[str, Figure]:
    """The figures that are held to a baseline, by place."""
    made: dict[str, Figure] = {}
    labelled = [*found["routers"].items(), *((f"k = {each['top_k']}", each) for each in found["orders"])]
    for label, attribution in labelled:
        made[f"{label}/bits_per_byte"] = attribution["bits_per_byte"]
        for row in attribution["rows"]:
            made |= _change(f"{label}/{row['group']}/{row['name']}", row)
    for name, changes in found["layers"].items():
        for layer, change in enumerate(changes):
            made |= _change(f"layer {layer} alone/{name}", change)
    for each in found["outliers"]:
        at = f"{each['what']} 2^{each['log2']}{' renormalised' if each['renormalise'] else ''}"
        made[f"{at}/bits_per_byte"] = each["bits_per_byte"]
        for key in ("values", "beyond"):
            made |= {f"{at}/{kind}/{key}": count for kind, count in each[key].items()}
        for name, change in each["steps"].items():
            made |= _change(f"{at}/{name}", change)
    return made


def _change(at: str, change: Mapping[str, Any]) -> dict[str, Figure]:
    return {f"{at}/{place}": value for key, values in change.items() for place, value in _places(key, values)}


def _places(key: str, values: Any) -> Iterator[tuple[str, Figure]]:
    """A figure of a change, layer by layer where it has a value for each; what was on is one."""
    if key in ("on", "reference"):
        yield key, ", ".join(values)
    elif key in ("layer_error", "layer_flips"):
        yield from ((f"{key}[{layer}]", value) for layer, value in enumerate(values))
    elif key in ELSEWHERE:
        yield key, values


def _elsewhere(at: str, flipped: AbstractSet[str]) -> tuple[float, float]:
    row, key = at.rsplit("/", 1)[0], _key(at)
    if row in flipped and key in AFTER_A_FLIP:
        return AFTER_A_FLIP[key]
    if "accumulator" in row and key in OF_ACCUMULATORS:
        return OF_ACCUMULATORS[key]
    return ELSEWHERE.get(key, (0.0, 0.0))


def _key(at: str) -> str:
    """Which figure of its row a place names, whatever the layer."""
    return at.rsplit("/", 1)[1].split("[")[0]


def _near(mine: Figure, theirs: Figure, relative: float, absolute: float, least: float | None) -> bool:
    if isinstance(mine, str) or isinstance(theirs, str):
        return mine == theirs
    if least is not None and not (abs(mine) > least * abs(theirs) if theirs else mine == 0):
        return False
    return abs(mine - theirs) <= max(relative * abs(theirs), absolute)  # false of what isn't a number
