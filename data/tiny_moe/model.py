"""The model's shape, its seeded start, and the per-layer router losses.

Symbols in the shape comments: T tokens of a batch, E experts, K experts a token, H hidden, I the width
of one expert.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from transformers import OlmoeConfig, OlmoeForCausalLM

# Hidden and expert widths are multiples of 32, the block of Q4_0 and Q8_0 and the head size here.
SHAPE: dict[str, Any] = {
    "hidden_size": 192,
    "intermediate_size": 128,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "vocab_size": 256,
    "max_position_embeddings": 1024,
}


def new_model(seed: int) -> OlmoeForCausalLM:
    """An untrained model; the same seed gives the same weights: the start of training and the control."""
    torch.manual_seed(seed)
    config = OlmoeConfig(
        **SHAPE,
        norm_topk_prob=False,
        tie_word_embeddings=False,
        # Byte 0 occurs in neither corpus, so it can end a text without a 257th token.
        eos_token_id=0,
        bos_token_id=None,
        pad_token_id=None,
    )
    return OlmoeForCausalLM(config)


def forward(model: OlmoeForCausalLM, ids: torch.Tensor) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """Next-byte logits [batch, length, 256] and per layer the router's logits [T, E] for ids [batch, length].

    The decoder is called without its language-model wrapper, which would compute the auxiliary loss
    that pools all layers.
    """
    output = model.model(ids, output_router_logits=True, use_cache=False)
    return model.lm_head(output.last_hidden_state), output.router_logits


def chosen_experts(router_logits: torch.Tensor, top_k: int) -> torch.Tensor:
    """Routes per expert, [E] float, of the T tokens whose router logits are [T, E]; sums to T·K."""
    chosen = router_logits.topk(top_k, dim=-1).indices  # [T, K]
    return torch.bincount(chosen.flatten(), minlength=router_logits.shape[-1]).float()


@torch.no_grad()
def route_distances(router_logits: Sequence[torch.Tensor], length: int, top_k: int) -> list[float]:
    """Per layer, the total variation between the routes of a batch's even and odd rows of ``length``."""
    distances = []
    for logits in router_logits:  # [T, E]
        rows = torch.unflatten(logits, 0, (-1, length))  # [rows, length, E]
        even, odd = (chosen_experts(rows[first::2].flatten(0, 1), top_k) for first in (0, 1))  # [E]
        distances.append(0.5 * float((even / even.sum() - odd / odd.sum()).abs().sum()))
    return distances


def balance_loss(router_logits: Sequence[torch.Tensor], top_k: int) -> torch.Tensor:
    """Load-balancing loss (Switch Transformer, eq. 4-6), summed over layers; 1 a layer when balanced.

    ``transformers``' own loss adds the loads of all layers before it multiplies, so one layer's idle
    expert is made up for by the same index in another layer, and each layer may collapse.  Here every
    layer is balanced for itself, over the whole batch of both domains: a domain is free to use few
    experts as long as the other domain uses the rest.
    """
    total = torch.zeros(())
    for logits in router_logits:  # [T, E]
        load = chosen_experts(logits, top_k)
        share = load / load.sum()  # [E], no gradient: counting is not differentiable
        probability = logits.softmax(dim=-1).mean(dim=0)  # [E]
        total = total + logits.shape[-1] * (share * probability).sum()
    return total


def z_loss(router_logits: Sequence[torch.Tensor]) -> torch.Tensor:
    """Router z-loss (ST-MoE, eq. 5), summed over layers: keeps logits small enough for float16."""
    total = torch.zeros(())
    for logits in router_logits:  # [T, E]
        total = total + logits.logsumexp(dim=-1).square().mean()
    return total
