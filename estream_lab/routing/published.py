"""The routers of public models, as their published configurations and reference implementations give them."""

from collections.abc import Mapping
from dataclasses import replace

from estream_lab.routing.router import RouterSpec

PUBLISHED_ROUTERS: Mapping[str, RouterSpec] = {
    "OLMoE-1B-7B": RouterSpec(experts=64, top_k=8, renormalise=False),
    "DeepSeek-V2-Lite": RouterSpec(experts=64, top_k=6, renormalise=False),
    "Qwen3-30B-A3B": RouterSpec(experts=128, top_k=8, renormalise=True),
    "Mixtral-8x7B": RouterSpec(experts=8, top_k=2, renormalise=True),
    # the choice is made on sigmoid + a learned bias an expert (`route`'s `bias`); the weights are without it
    "LFM2-8B-A1B": RouterSpec(experts=32, top_k=4, renormalise=True, scoring="sigmoid", renormalise_epsilon=1e-6),
}


def resized(specs: Mapping[str, RouterSpec], experts: int, top_k: int) -> dict[str, RouterSpec]:
    """The same rules for E experts of which k are chosen, so that they can be laid over the same logits."""
    return {name: replace(spec, experts=experts, top_k=top_k) for name, spec in specs.items()}
