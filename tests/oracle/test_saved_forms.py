"""Every form in which transformers saves an OLMoE is read. Runs in the oracle's environment (`make test-full`)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import OlmoeConfig, OlmoeForCausalLM

from estream_lab.models import ExpertSource
from estream_lab.routing import RouterSpec

PACKED = {"save_original_format": False}  # as transformers holds experts in memory
PLAIN = {"save_original_format": True}


def model(**config: Any) -> OlmoeForCausalLM:
    torch.manual_seed(7)
    sizes = {
        "hidden_size": 32,
        "intermediate_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_experts": 6,
        "num_experts_per_tok": 3,
        "vocab_size": 50,
        "max_position_embeddings": 64,
        "eos_token_id": 0,
        "pad_token_id": None,
    }
    return OlmoeForCausalLM(OlmoeConfig(**{**sizes, **config}))


def assert_holds(source: ExpertSource, saved: OlmoeForCausalLM) -> None:
    """Every weight of the model comes out of the source, widened to float32."""
    state = {name: tensor.float().numpy() for name, tensor in saved.state_dict().items()}
    ffn = saved.config.intermediate_size
    assert np.array_equal(source.dense("embed.weight"), state["model.embed_tokens.weight"])
    assert np.array_equal(source.dense("norm.weight"), state["model.norm.weight"])
    if not source.spec.tied:
        assert np.array_equal(source.dense("head.weight"), state["lm_head.weight"])
    for layer, block in enumerate(saved.model.layers):
        for ours, theirs in (
            ("attention_norm", block.input_layernorm),
            ("q_proj", block.self_attn.q_proj),
            ("k_proj", block.self_attn.k_proj),
            ("v_proj", block.self_attn.v_proj),
            ("q_norm", block.self_attn.q_norm),
            ("k_norm", block.self_attn.k_norm),
            ("o_proj", block.self_attn.o_proj),
            ("expert_norm", block.post_attention_layernorm),
            ("router", block.mlp.gate),
        ):
            expected = theirs.weight.detach().float().numpy()
            assert np.array_equal(source.dense(f"layers.{layer}.{ours}.weight"), expected)
        experts = block.mlp.experts
        for expert in range(source.spec.experts):
            gate, up, down = source.expert(layer, expert)
            gate_up = experts.gate_up_proj[expert].detach().float().numpy()  # (2F, H)
            assert np.array_equal(gate, gate_up[:ffn])
            assert np.array_equal(up, gate_up[ffn:])
            assert np.array_equal(down, experts.down_proj[expert].detach().float().numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("form", [PLAIN, PACKED], ids=["plain", "packed"])
@pytest.mark.parametrize("shard", ["1GB", "8KB"])
def test_a_saved_model_is_read(tmp_path: Path, dtype: torch.dtype, form: dict[str, bool], shard: str) -> None:
    saved = model().to(dtype)
    saved.save_pretrained(tmp_path, max_shard_size=shard, **form)
    assert (tmp_path / "model.safetensors.index.json").exists() == (shard == "8KB")
    with ExpertSource.open(tmp_path) as source:
        assert source.packed == (form is PACKED,) * 2
        assert_holds(source, saved)


def test_a_tied_model_is_read(tmp_path: Path) -> None:
    saved = model(tie_word_embeddings=True)
    saved.save_pretrained(tmp_path)
    with ExpertSource.open(tmp_path) as source:
        assert source.spec.tied
        assert_holds(source, saved)


@pytest.mark.parametrize(
    "config",
    [
        {"norm_topk_prob": True, "rms_norm_eps": 1e-6},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}},
        {"num_key_value_heads": 4},
    ],
)
def test_the_configuration_is_understood_as_transformers_means_it(tmp_path: Path, config: dict[str, Any]) -> None:
    saved = model(**config)
    saved.save_pretrained(tmp_path)
    with ExpertSource.open(tmp_path) as source:
        spec = source.spec
    meant = saved.config
    assert spec.router == RouterSpec(experts=6, top_k=3, renormalise=meant.norm_topk_prob)
    assert spec.rms_eps == meant.rms_norm_eps
    assert spec.rope_theta == meant.rope_parameters["rope_theta"]
    assert spec.kv_heads == meant.num_key_value_heads
    assert (spec.hidden, spec.ffn, spec.vocab, spec.context) == (32, 16, 50, 64)


def test_defaults_are_those_of_transformers() -> None:
    """What our reading fills in where a configuration is silent."""
    default = OlmoeConfig()
    assert default.norm_topk_prob is False
    assert default.rms_norm_eps == 1e-5
    assert default.tie_word_embeddings is False
    assert default.rope_parameters["rope_theta"] == 10000.0
    assert default.hidden_act == "silu"
    assert default.num_key_value_heads == default.num_attention_heads
