"""OLMoE (allenai/OLMoE-1B-7B; transformers' OlmoeForCausalLM).

RMS norm of the whole query and key vectors before they are split into heads, half-rotate rope, softmax over all
experts and then top-k, weights not renormalised unless the configuration says so.
"""

from __future__ import annotations

from estream_lab.models.config import Config
from estream_lab.models.family import ExpertNames, Family
from estream_lab.models.spec import ModelSpec
from estream_lab.routing import RouterSpec


def _spec(config: Config) -> ModelSpec:
    """Shapes must be stated; the other defaults are those of transformers' OlmoeConfig, which omits no shape when it
    saves."""
    config.require("hidden_act", "silu")
    config.require("attention_bias", False)
    if config.values.get("clip_qkv") is not None:
        raise config.refuse("clip_qkv", config.values["clip_qkv"], "null (clipping is not supported)")
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    # The query norm spans the residual width, so a head can't have any other size.
    if hidden % heads or config.integer("head_dim", hidden // heads) * heads != hidden:
        raise config.refuse("num_attention_heads", heads, f"a divisor of hidden_size {hidden} and agree with head_dim")
    experts, top_k = config.integer("num_experts"), config.integer("num_experts_per_tok")
    if top_k > experts:
        raise config.refuse("num_experts_per_tok", top_k, f"at most num_experts, {experts}")
    return ModelSpec(
        family="olmoe",
        hidden=hidden,
        layers=config.integer("num_hidden_layers"),
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=hidden // heads,
        vocab=config.integer("vocab_size"),
        context=config.integer("max_position_embeddings"),
        experts=experts,
        ffn=config.integer("intermediate_size"),
        rms_eps=config.number("rms_norm_eps", 1e-5),
        rope_theta=config.rope_theta(10000.0),
        router=RouterSpec(
            experts=experts,
            top_k=top_k,
            scoring="softmax",
            renormalise=config.flag("norm_topk_prob", False),
        ),
        tied=config.flag("tie_word_embeddings", False),
    )


OLMOE = Family(
    name="olmoe",
    spec=_spec,
    outer={
        "embed.weight": "model.embed_tokens.weight",
        "norm.weight": "model.norm.weight",
        "head.weight": "lm_head.weight",
    },
    layer={
        "attention_norm.weight": "input_layernorm.weight",
        "q_proj.weight": "self_attn.q_proj.weight",
        "k_proj.weight": "self_attn.k_proj.weight",
        "v_proj.weight": "self_attn.v_proj.weight",
        "q_norm.weight": "self_attn.q_norm.weight",
        "k_norm.weight": "self_attn.k_norm.weight",
        "o_proj.weight": "self_attn.o_proj.weight",
        "expert_norm.weight": "post_attention_layernorm.weight",
        "router.weight": "mlp.gate.weight",
    },
    layer_prefix="model.layers.{layer}.",
    experts=ExpertNames(
        gate="model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight",
        up="model.layers.{layer}.mlp.experts.{expert}.up_proj.weight",
        down="model.layers.{layer}.mlp.experts.{expert}.down_proj.weight",
        gate_up="model.layers.{layer}.mlp.experts.gate_up_proj",
        packed_down="model.layers.{layer}.mlp.experts.down_proj",
    ),
)
