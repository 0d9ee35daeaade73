"""The five public models as the simulator sees them: what is read, what is computed and what lies in memory.

Sources: the models' published configurations; sizes count weights of matrices, not norms.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from estream_lab.experts.shape import ExpertShape, RecordClass
from estream_lab.models.spec import ModelSpec
from estream_lab.routing.published import PUBLISHED_ROUTERS

LAYOUT = "q4-32x32"
DEFAULT_ALPHA = 3.5
"""Skew of synthetic routes for a model of which nothing else is known: OLMoE's."""


@dataclass(frozen=True)
class ModelShape:
    """A model's sizes.

    Attributes:
        title: its name.
        layers: sparse layers. experts, top_k: E and k of each. hidden, ffn: H and F of an expert.
        expert_bytes: one expert's record with its padding (the paper's W_e).
        dense_weights: of a sparse layer, on average: what each token is multiplied by beside the routed experts.
        attention_width: of a sparse layer, on average: multiply-adds that one token spends on one earlier token.
        lead_weights, lead_attention: the same of all layers without routed experts together; they come first.
        embedding_weights: embedding and head.
        kv_bytes: keys and values of a token in fp16, all layers.
        alpha: of synthetic routes, see `routing.synthetic_routes`.
    """

    title: str
    layers: int
    experts: int
    top_k: int
    hidden: int
    ffn: int
    expert_bytes: int
    dense_weights: float
    attention_width: float
    lead_weights: int
    lead_attention: int
    embedding_weights: int
    kv_bytes: int
    alpha: float = DEFAULT_ALPHA

    @property
    def non_expert_weights(self) -> int:
        """All weights that aren't a routed expert's."""
        return round(self.layers * self.dense_weights) + self.lead_weights + self.embedding_weights

    def layer_flops(self, tokens: int) -> float:
        """Operations of a sparse layer's non-expert work for a whole prompt, attention looking back only."""
        return _flops(tokens, self.dense_weights, self.attention_width)

    def lead_flops(self, tokens: int) -> float:
        """Operations of all layers without routed experts."""
        return _flops(tokens, self.lead_weights, self.lead_attention)

    @property
    def route_flops(self) -> int:
        """Operations of one route: gate, up and down."""
        return 2 * 3 * self.hidden * self.ffn

    @classmethod
    def of_spec(cls, spec: ModelSpec, title: str, expert_bytes: int) -> "ModelShape":
        """Of a model that a store holds: all layers are sparse, all have attention."""
        layer_of = [name.startswith("layers.0.") and len(shape) == 2 for name, shape in spec.dense_shapes().items()]
        sizes = [shape[0] * shape[-1] for shape in spec.dense_shapes().values()]
        vocabulary = spec.vocab * spec.hidden
        return cls(
            title, spec.layers, spec.experts, spec.router.top_k, spec.hidden, spec.ffn, expert_bytes,
            sum(size for size, mine in zip(sizes, layer_of, strict=True) if mine), 2 * spec.query_width, 0, 0,
            vocabulary if spec.tied else 2 * vocabulary, 2 * 2 * spec.key_width * spec.layers,
        )  # fmt: skip


def _flops(tokens: int, weights: float, attention: float) -> float:
    return 2 * weights * tokens + 2 * attention * tokens * (tokens + 1) / 2


def _published(title: str, layers: int, hidden: int, ffn: int, *, vocabulary: int, **sizes: float) -> ModelShape:
    """``vocabulary``: ids of embedding and head together."""
    router = PUBLISHED_ROUTERS[title]
    record = RecordClass.of(ExpertShape(hidden, ffn, (LAYOUT,) * 3)).stride
    routing = router.experts * hidden
    return ModelShape(
        title, layers, router.experts, router.top_k, hidden, ffn, record,
        sizes["dense"] + routing, sizes["attention"], int(sizes.get("lead", 0)), int(sizes.get("lead_attention", 0)),
        vocabulary * hidden, int(sizes["kv"]), sizes["alpha"],
    )  # fmt: skip


_CONVOLUTION = 4 * 2048**2  # LFM2: three gates in, one out
_LFM2_ATTENTION = 2 * 2048**2 + 2 * 2048 * 512
_LATENT = 2048 * 16 * 192 + 2048 * 576 + 512 * 16 * 256 + 16 * 128 * 2048  # DeepSeek: q, kv down, kv up, o

MODELS: Mapping[str, ModelShape] = {
    "olmoe": _published(
        "OLMoE-1B-7B", 16, 2048, 1024, vocabulary=2 * 50304,
        dense=4 * 2048**2, attention=2 * 16 * 128, kv=131_072, alpha=3.5,
    ),
    "lfm2": _published(  # attention in 6 of the 22 sparse layers; two layers of convolution and a dense FFN before
        "LFM2-8B-A1B", 22, 2048, 1792, vocabulary=65536,
        dense=(6 * _LFM2_ATTENTION + 16 * _CONVOLUTION) / 22, attention=6 / 22 * 2 * 32 * 64,
        lead=2 * (_CONVOLUTION + 3 * 2048 * 7168), kv=12_288, alpha=6.0,
    ),
    "deepseek": _published(  # two shared experts are non-expert work; the first layer is dense
        "DeepSeek-V2-Lite", 26, 2048, 1408, vocabulary=2 * 102_400,
        dense=_LATENT + 3 * 2048 * 2816, attention=16 * (192 + 128),
        lead=_LATENT + 3 * 2048 * 10_944, lead_attention=16 * (192 + 128), kv=276_480, alpha=3.0,
    ),
    "qwen3": _published(
        "Qwen3-30B-A3B", 48, 2048, 768, vocabulary=2 * 151_936,
        dense=2 * 2048 * 4096 + 2 * 2048 * 512, attention=2 * 32 * 128, kv=98_304, alpha=2.0,
    ),
    "mixtral": _published(
        "Mixtral-8x7B", 32, 4096, 14_336, vocabulary=2 * 32_000,
        dense=2 * 4096**2 + 2 * 4096 * 1024, attention=2 * 32 * 128, kv=131_072, alpha=20.0,
    ),
}  # fmt: skip
"""By the names that the command line takes."""
