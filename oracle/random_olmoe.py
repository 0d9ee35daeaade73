"""A small OLMoE checkpoint with seeded random weights, saved by transformers: one of the two models of the goldens.

It is everything that the shipped model isn't: bfloat16, in several shards, grouped-query attention, norm weights far
from 1, and experts whose hidden and inner widths are equal, so that a transposed down projection passes every check
of shapes. Weights are scaled so that attention, router and head are about as decided as in a trained model.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import torch
from transformers import OlmoeConfig, OlmoeForCausalLM

SEED = 20261129
WIDTH = 64
SHAPE = {
    "hidden_size": WIDTH,
    "intermediate_size": WIDTH,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "vocab_size": 256,
    "max_position_embeddings": 1024,
}
# Standard deviation by the end of a parameter's name; for a matrix in units of 1/sqrt(in_features).
SPREAD = {
    "embed_tokens.weight": float(np.sqrt(WIDTH)),
    "self_attn.q_proj.weight": 1.0,
    "self_attn.k_proj.weight": 1.0,
    "self_attn.v_proj.weight": 1.5,
    "self_attn.o_proj.weight": 1.0,
    "mlp.gate.weight": 2.0,
    "mlp.experts.gate_up_proj": 2.0,
    "mlp.experts.down_proj": 1.0,
    "lm_head.weight": 3.0,
}


def random_olmoe(seed: int = SEED) -> OlmoeForCausalLM:
    """The model in float32, its weights rounded to bfloat16."""
    config = OlmoeConfig(
        **SHAPE, norm_topk_prob=False, tie_word_embeddings=False, eos_token_id=0, bos_token_id=None, pad_token_id=None
    )
    model = OlmoeForCausalLM(config)
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            noise = rng.standard_normal(tuple(parameter.shape))
            if name.endswith("norm.weight"):
                values = 1.0 + 0.3 * noise
            else:
                spread = next(spread for end, spread in SPREAD.items() if name.endswith(end))
                values = noise * spread / np.sqrt(parameter.shape[-1])
            parameter.copy_(torch.from_numpy(values).to(torch.bfloat16))
    return model


def save(folder: Path, seed: int = SEED) -> None:
    """Write the checkpoint with transformers' own saving, in shards small enough to part an expert from itself."""
    shutil.rmtree(folder, ignore_errors=True)
    random_olmoe(seed).to(torch.bfloat16).save_pretrained(folder, max_shard_size="200KB")
    for file in folder.iterdir():
        os.chmod(file, 0o644)
