"""Tiny checkpoints, written byte by byte: no torch, and every way of being wrong is within reach."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

LAYERS, HIDDEN, FFN, EXPERTS, HEADS, KV_HEADS, VOCAB = 2, 16, 8, 3, 4, 2, 40

CONFIG: dict[str, Any] = {
    "architectures": ["OlmoeForCausalLM"],
    "model_type": "olmoe",
    "hidden_size": HIDDEN,
    "intermediate_size": FFN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "vocab_size": VOCAB,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "norm_topk_prob": False,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
}


def tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """Every tensor of the checkpoint that CONFIG describes, one a projection, float32."""
    head = HIDDEN // HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (VOCAB, HIDDEN),
        "model.norm.weight": (HIDDEN,),
        "lm_head.weight": (VOCAB, HIDDEN),
    }
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        shapes[at + "input_layernorm.weight"] = (HIDDEN,)
        shapes[at + "post_attention_layernorm.weight"] = (HIDDEN,)
        shapes[at + "self_attn.q_proj.weight"] = (HIDDEN, HIDDEN)
        shapes[at + "self_attn.k_proj.weight"] = (KV_HEADS * head, HIDDEN)
        shapes[at + "self_attn.v_proj.weight"] = (KV_HEADS * head, HIDDEN)
        shapes[at + "self_attn.o_proj.weight"] = (HIDDEN, HIDDEN)
        shapes[at + "self_attn.q_norm.weight"] = (HIDDEN,)
        shapes[at + "self_attn.k_norm.weight"] = (KV_HEADS * head,)
        shapes[at + "mlp.gate.weight"] = (EXPERTS, HIDDEN)
        for expert in range(EXPERTS):
            for name, shape in (("gate", (FFN, HIDDEN)), ("up", (FFN, HIDDEN)), ("down", (HIDDEN, FFN))):
                shapes[f"{at}mlp.experts.{expert}.{name}_proj.weight"] = shape
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def packed(plain: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same weights in the form that holds a layer's experts together."""
    out = {name: array for name, array in plain.items() if ".mlp.experts." not in name}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}.mlp.experts."
        gate, up, down = (
            np.stack([plain[f"{at}{expert}.{name}_proj.weight"] for expert in range(EXPERTS)])
            for name in ("gate", "up", "down")
        )
        out[at + "gate_up_proj"] = np.concatenate([gate, up], axis=1)  # (E, 2F, H)
        out[at + "down_proj"] = down  # (E, H, F)
    return out


def write(folder: Path, arrays: Mapping[str, np.ndarray] | None = None, **config: Any) -> Path:
    """A checkpoint in one file. `config` replaces values of CONFIG; None removes the key."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {key: value for key, value in {**CONFIG, **config}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(values))
    save_file(dict(tensors() if arrays is None else arrays), folder / "model.safetensors")
    return folder


def write_sharded(
    folder: Path, shards: list[dict[str, np.ndarray]], weight_map: Mapping[str, str] | None = None
) -> Path:
    """A checkpoint in several files with an index; `weight_map` replaces the true one."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    placed = {}
    for number, shard in enumerate(shards, 1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        save_file(shard, folder / file)
        placed.update(dict.fromkeys(shard, file))
    index = {"metadata": {}, "weight_map": placed if weight_map is None else dict(weight_map)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def write_raw(path: Path, entries: Mapping[str, tuple[str, list[int], bytes]], **overrides: Any) -> Path:
    """A safetensors file of (dtype, shape, bytes) entries; `overrides` replaces header entries."""
    header: dict[str, Any] = {}
    body = b""
    for name, (dtype, shape, content) in entries.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(content)]}
        body += content
    text = json.dumps({**header, **overrides}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return path
