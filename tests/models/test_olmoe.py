from typing import Any

import pytest

from estream_lab.errors import EStreamError
from estream_lab.models import spec_from_config
from estream_lab.routing import RouterSpec

from .checkpoints import CONFIG

# config.json of allenai/OLMoE-1B-7B-0924.
PUBLISHED = {
    "architectures": ["OlmoeForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "clip_qkv": None,
    "eos_token_id": 50279,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "initializer_range": 0.02,
    "intermediate_size": 1024,
    "max_position_embeddings": 4096,
    "model_type": "olmoe",
    "norm_topk_prob": False,
    "num_attention_heads": 16,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 16,
    "num_key_value_heads": 16,
    "output_router_logits": False,
    "pad_token_id": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "router_aux_loss_coef": 0.01,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.43.0.dev0",
    "use_cache": True,
    "vocab_size": 50304,
}


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in CONFIG.items() if name != key}


def test_the_published_configuration() -> None:
    spec = spec_from_config(PUBLISHED)
    assert spec.family == "olmoe"
    assert (spec.hidden, spec.ffn, spec.layers, spec.experts) == (2048, 1024, 16, 64)
    assert (spec.heads, spec.kv_heads, spec.head_dim, spec.vocab, spec.context) == (16, 16, 128, 50304, 4096)
    assert (spec.rms_eps, spec.rope_theta, spec.tied) == (1e-5, 1e4, False)
    assert spec.router == RouterSpec(experts=64, top_k=8, scoring="softmax", renormalise=False)


def test_a_missing_norm_topk_prob_means_no_renormalising() -> None:
    """The default of transformers' OlmoeConfig; other families default otherwise."""
    assert spec_from_config(without("norm_topk_prob")).router.renormalise is False
    assert spec_from_config({**CONFIG, "norm_topk_prob": True}).router.renormalise is True


@pytest.mark.parametrize(
    ("key", "field", "expected"),
    [("num_key_value_heads", "kv_heads", 4), ("rms_norm_eps", "rms_eps", 1e-5), ("tie_word_embeddings", "tied", False)],
)
def test_other_documented_defaults(key: str, field: str, expected: object) -> None:
    assert getattr(spec_from_config(without(key)), field) == expected
    assert getattr(spec_from_config({**CONFIG, key: None}), field) == expected


@pytest.mark.parametrize(
    "key",
    [
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_experts",
        "num_experts_per_tok",
        "vocab_size",
        "max_position_embeddings",
    ],
)
@pytest.mark.parametrize("value", [None, 0, -4, 2.0, "4", True])
def test_shapes_must_be_stated_and_whole(key: str, value: object) -> None:
    with pytest.raises(EStreamError, match=f"some/config.json .*{key}.*; give a(nother)? .*checkpoint"):
        spec_from_config({**CONFIG, key: value}, "some/config.json")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("clip_qkv", 8.0),
        ("attention_bias", True),
        ("hidden_act", "gelu"),
        ("norm_topk_prob", 1),
        ("rms_norm_eps", 0),
        ("rms_norm_eps", float("nan")),
        ("rms_norm_eps", 10**400),
        ("rope_theta", "10000"),
        ("num_attention_heads", 3),
        ("head_dim", 8),
        ("num_experts_per_tok", 4),
        ("rope_scaling", {"type": "linear", "factor": 2.0}),
        ("rope_scaling", {"rope_type": "yarn", "factor": 40.0}),
        ("rope_scaling", "linear"),
        ("rope_scaling", {"type": "dynamic"}),
        ("rope_parameters", {"rope_type": "llama3", "rope_theta": 10000.0}),
        ("rope_parameters", {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}),
        ("rope_parameters", {"rope_type": "default", "rope_theta": 1e6}),
        ("rope_parameters", {"rope_type": "default", "factor": 4.0}),
        ("rope_parameters", {"full_attention": {"rope_type": "default"}}),
    ],
)
def test_what_would_change_the_arithmetic_is_refused(key: str, value: object) -> None:
    with pytest.raises(EStreamError, match=r"config\.json.* sets .* where it must be .*; give another checkpoint"):
        spec_from_config({**CONFIG, key: value})


def test_more_heads_than_the_residual_is_wide_are_named_as_the_fault() -> None:
    with pytest.raises(EStreamError, match="sets num_attention_heads to 1000 where"):
        spec_from_config({**CONFIG, "num_attention_heads": 1000})


def test_key_value_heads_must_share_evenly() -> None:
    with pytest.raises(EStreamError, match="4 query heads can't share 3 key/value heads"):
        spec_from_config({**CONFIG, "num_key_value_heads": 3})


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_theta": 5e5},
        {"rope_theta": 5e5, "rope_scaling": None},
        {"rope_theta": 5e5, "rope_scaling": {"rope_type": "default"}},
        {"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}},
        {"rope_parameters": {"rope_theta": 500000, "rope_type": "default", "partial_rotary_factor": 1.0}},
        {"rope_theta": 5e5, "rope_parameters": {"rope_theta": 5e5}},
    ],
)
def test_the_rotary_base_is_read_from_either_place(rope: dict[str, Any]) -> None:
    assert spec_from_config({**without("rope_theta"), **rope}).rope_theta == 5e5


@pytest.mark.parametrize("rope", [{}, {"rope_parameters": None}, {"rope_parameters": {"rope_type": "default"}}])
def test_a_missing_rotary_base_is_ten_thousand(rope: dict[str, Any]) -> None:
    assert spec_from_config({**without("rope_theta"), **rope}).rope_theta == 1e4


@pytest.mark.parametrize("model_type", ["llama", "qwen2_moe", None, 3, ["olmoe"]])
def test_another_architecture_is_refused_by_name(model_type: object) -> None:
    with pytest.raises(EStreamError, match=r"describes a model of type .*; give a checkpoint of one of: olmoe"):
        spec_from_config({**CONFIG, "model_type": model_type})
