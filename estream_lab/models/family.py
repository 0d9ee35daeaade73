"""What distinguishes one model family's checkpoints from another's: a table of names and a reading of config.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from estream_lab.models.config import Config
from estream_lab.models.spec import ModelSpec


@dataclass(frozen=True)
class ExpertNames:
    """Tensor names of expert weights, with {layer} and {expert} to fill in.

    `gate`, `up` (F, H) and `down` (H, F) are the form with one tensor a projection; `gate_up` (E, 2F, H), gate rows
    first, and `packed_down` (E, H, F) the form that holds a layer's experts together.
    """

    gate: str
    up: str
    down: str
    gate_up: str
    packed_down: str


@dataclass(frozen=True)
class Family:
    """One architecture.

    Attributes:
        name: the `model_type` of its configurations.
        spec: reads a configuration; refuses options that change the arithmetic and aren't implemented.
        outer: canonical → checkpoint name of the weights outside the layers.
        layer: canonical → checkpoint name of a layer's dense weights, after `layers.{l}.` and `layer_prefix`.
        layer_prefix: with {layer} to fill in.
        experts: names of the expert tensors.
    """

    name: str
    spec: Callable[[Config], ModelSpec]
    outer: Mapping[str, str]
    layer: Mapping[str, str]
    layer_prefix: str
    experts: ExpertNames

    def dense_name(self, canonical: str) -> str:
        """The checkpoint's name of a dense weight, e.g. `layers.3.q_proj.weight`."""
        if canonical in self.outer:
            return self.outer[canonical]
        _, layer, name = canonical.split(".", 2)
        return self.layer_prefix.format(layer=layer) + self.layer[name]
