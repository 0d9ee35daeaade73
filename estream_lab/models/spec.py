"""What a model is: the numbers that fix its shapes and its arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from estream_lab.errors import EStreamError
from estream_lab.routing import RouterSpec
from estream_lab.routing.router import wrong_types


@dataclass(frozen=True)
class ModelSpec:
    """A decoder whose every feed-forward layer is a mixture of experts.

    Attributes:
        family: name in the registry of families ("olmoe").
        hidden: width of the residual stream, H.
        layers: number of decoder layers, each with one expert layer.
        heads, kv_heads, head_dim: query heads, key/value heads (heads is a multiple of kv_heads), width of a head, D.
        vocab: number of token ids, V.
        context: most positions that the model was made for.
        experts: experts a layer, E.
        ffn: inner width of one expert, F.
        rms_eps: added to the mean square in every RMS norm.
        rope_theta: base of the rotary frequencies.
        router: how router logits become routes.
        tied: the head uses the embedding's weights; there is no `head.weight` then.
    """

    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    context: int
    experts: int
    ffn: int
    rms_eps: float
    rope_theta: float
    router: RouterSpec
    tied: bool

    def __post_init__(self) -> None:
        for name in ("hidden", "layers", "heads", "kv_heads", "head_dim", "vocab", "context", "experts", "ffn"):
            if getattr(self, name) < 1:
                raise EStreamError(f"the model's {name} is {getattr(self, name)}; it must be at least 1")
        if self.heads % self.kv_heads:
            raise EStreamError(f"{self.heads} query heads can't share {self.kv_heads} key/value heads evenly")
        if self.head_dim % 2:
            raise EStreamError(f"head_dim is {self.head_dim}; rotary embedding needs an even number")
        if not self.rms_eps > 0 or not self.rope_theta > 0:
            raise EStreamError(f"rms_eps ({self.rms_eps}) and rope_theta ({self.rope_theta}) must be positive")
        if self.router.experts != self.experts:
            raise EStreamError(f"the router knows {self.router.experts} experts, the model has {self.experts}")

    @property
    def query_width(self) -> int:
        """Width of all query heads together."""
        return self.heads * self.head_dim

    @property
    def key_width(self) -> int:
        """Width of all key (or value) heads together."""
        return self.kv_heads * self.head_dim

    def dense_shapes(self) -> dict[str, tuple[int, ...]]:
        """Canonical name → shape of every weight that is not an expert's, in the order in which a request uses them.

        Matrices are (out_features, in_features), as in checkpoints.
        """
        shapes: dict[str, tuple[int, ...]] = {"embed.weight": (self.vocab, self.hidden)}
        for layer in range(self.layers):
            at = f"layers.{layer}."
            shapes[at + "attention_norm.weight"] = (self.hidden,)
            shapes[at + "q_proj.weight"] = (self.query_width, self.hidden)
            shapes[at + "k_proj.weight"] = (self.key_width, self.hidden)
            shapes[at + "v_proj.weight"] = (self.key_width, self.hidden)
            shapes[at + "q_norm.weight"] = (self.query_width,)
            shapes[at + "k_norm.weight"] = (self.key_width,)
            shapes[at + "o_proj.weight"] = (self.hidden, self.query_width)
            shapes[at + "expert_norm.weight"] = (self.hidden,)
            shapes[at + "router.weight"] = (self.experts, self.hidden)
        shapes["norm.weight"] = (self.hidden,)
        if not self.tied:
            shapes["head.weight"] = (self.vocab, self.hidden)
        return shapes

    def to_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads back."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ModelSpec:
        """The spec written by `to_json`.

        Raises:
            EStreamError: a key is missing or unknown, or a value of another type, here or in the router's part.
        """
        _same_keys(values, cls)
        router = values["router"]
        if not isinstance(router, Mapping):
            raise EStreamError("the model spec's router must be an object; pack the checkpoint again")
        if wrong := wrong_types(values, cls):
            raise EStreamError(f"in the model spec {wrong[0]}; pack the checkpoint again")
        try:
            return cls(**{**values, "router": RouterSpec.from_json(router)})
        except (TypeError, ValueError) as error:
            raise EStreamError(f"the model spec is unusable ({error}); pack the checkpoint again") from error


def _same_keys(values: Mapping[str, Any], of: type) -> None:
    """Refuse a mapping whose keys are not exactly the fields of a dataclass: a key that nobody reads is a lie."""
    known = {field.name for field in fields(of)}
    wrong = [f"lacks {name!r}" for name in sorted(known - set(values))]
    wrong += [f"has the unknown key {name!r}" for name in sorted(set(values) - known)]
    if wrong:
        raise EStreamError(f"the model spec {' and '.join(wrong)}; pack the checkpoint again with this version")
