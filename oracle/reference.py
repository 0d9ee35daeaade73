"""The reference: transformers' OlmoeForCausalLM in float32, on one thread, with its plainest attention and experts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from transformers import OlmoeForCausalLM


@dataclass(frozen=True)
class Forward:
    """What the reference computed for one prompt of T tokens: logits (T, V) and per layer router logits (L, T, E),
    chosen experts (L, T, k) and their weights (L, T, k), in the router's own order."""

    logits: np.ndarray
    router_logits: np.ndarray
    ids: np.ndarray
    weights: np.ndarray


def load(folder: Path, mode: str) -> OlmoeForCausalLM:
    """The checkpoint widened to float32; in mode "q4_0" its expert weights went through Q4_0 and back."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    model = OlmoeForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    model.set_experts_implementation("eager")
    model.eval()
    if mode == "q4_0":
        with torch.no_grad():
            for layer in model.model.layers:
                for parameter in (layer.mlp.experts.gate_up_proj, layer.mlp.experts.down_proj):
                    parameter.copy_(torch.from_numpy(through_q4_0(parameter.numpy())))
    elif mode != "f32":
        raise ValueError(mode)
    return model


def through_q4_0(weights: np.ndarray) -> np.ndarray:
    """Quantise to Q4_0 along the last axis and back, by the `gguf` package: none of our own code."""
    kind = GGMLQuantizationType.Q4_0
    return dequantize(quantize(np.ascontiguousarray(weights, np.float32), kind), kind).reshape(weights.shape)


def forward(model: OlmoeForCausalLM, tokens: np.ndarray) -> Forward:
    """Run one prompt in one pass; routes are taken from the router modules themselves."""
    routers: list[tuple[torch.Tensor, ...]] = []
    hooks = [
        layer.mlp.gate.register_forward_hook(lambda _module, _inputs, outputs: routers.append(outputs))
        for layer in model.model.layers
    ]
    try:
        with torch.no_grad():
            logits = model(torch.from_numpy(tokens.astype(np.int64))[None], use_cache=False).logits[0]
    finally:
        for hook in hooks:
            hook.remove()
    router_logits, weights, ids = (torch.stack(part).numpy() for part in zip(*routers, strict=True))
    return Forward(logits.numpy(), router_logits, ids, weights)
