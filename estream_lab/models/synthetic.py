"""Models of any shape with seeded random weights: for measuring memory and protocol, never quality."""

import math
import zlib

import numpy as np
from numpy.typing import NDArray

from estream_lab.models.spec import ModelSpec
from estream_lab.routing import RouterSpec

Weights = NDArray[np.float32]


def synthetic_spec(
    *,
    hidden: int,
    ffn: int,
    layers: int,
    experts: int,
    top_k: int,
    heads: int | None = None,
    vocab: int = 256,
    context: int = 4096,
) -> ModelSpec:
    """An OLMoE-like spec; heads of 64 by default."""
    heads = heads or max(1, hidden // 64)
    router = RouterSpec(experts=experts, top_k=top_k, scoring="softmax", renormalise=False)
    return ModelSpec(
        family="olmoe",
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        vocab=vocab,
        context=context,
        experts=experts,
        ffn=ffn,
        rms_eps=1e-5,
        rope_theta=10000.0,
        router=router,
        tied=False,
    )


class SyntheticSource:
    """Weights drawn when asked for, one tensor at a time; the same seed and name give the same values.

    Matrices have a standard deviation of 1/sqrt(inputs), so that activations keep their size; norms are one; the
    router's is four times that, so that routes are not near-uniform.

    Args:
        spec: the model's shape.
        seed: of all weights.
    """

    def __init__(self, spec: ModelSpec, seed: int = 0) -> None:
        self.spec, self.seed = spec, seed

    def dense_dtype(self, name: str) -> str:
        """Always F32."""
        return "F32"

    def dense(self, name: str) -> Weights:
        """A dense weight by its canonical name, float32."""
        shape = self.spec.dense_shapes()[name]
        if len(shape) == 1:
            return np.ones(shape, np.float32)
        return self._draw(name, shape, 4.0 if "router" in name else 1.0)

    def expert(self, layer: int, expert: int) -> tuple[Weights, Weights, Weights]:
        """gate (F, H), up (F, H) and down (H, F) of one expert, float32."""
        spec, at = self.spec, f"{layer}.{expert}"
        gate, up = (self._draw(f"{at}.{name}", (spec.ffn, spec.hidden), 1.0) for name in ("gate", "up"))
        return gate, up, self._draw(f"{at}.down", (spec.hidden, spec.ffn), 1.0)

    def _draw(self, name: str, shape: tuple[int, ...], scale: float) -> Weights:
        rng = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        inputs = 1 if name.startswith("embed") else shape[-1]
        return rng.standard_normal(shape, dtype=np.float32) * np.float32(scale / math.sqrt(inputs))
