"""Each mistake that others made with OLMoE, planted, must miss the goldens' tolerance by far.

A tolerance that a wrong model passes proves nothing: every plant reports by what factor it exceeds it.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from estream_lab.models import Decoder, ExpertSource, ModelSpec, layers
from estream_lab.routing import RouterSpec, Routes, route

from ..golden_compare import CHECKPOINTS, Comparison, Golden, compare
from .resident import Expert, Resident, Router, read_experts
from .test_goldens import TOLERANCE

LEAST_FACTOR = 20
LONGEST = 100  # tokens; the short prompts show every trap already

Experts = Mapping[tuple[int, int], Expert]


def softmax_over_the_top_k_only(logits: np.ndarray, spec: RouterSpec) -> Routes:
    ids = np.argsort(-logits, axis=-1, kind="stable")[:, : spec.top_k]
    chosen = np.take_along_axis(logits, ids, -1)
    powers = np.exp(chosen - chosen.max(-1, keepdims=True))
    return Routes.from_topk(ids.astype(np.int32), (powers / powers.sum(-1, keepdims=True)).astype(np.float32))


def in_bfloat16(x: np.ndarray) -> np.ndarray:
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def router_in_bfloat16(logits: np.ndarray, spec: RouterSpec) -> Routes:
    return route(in_bfloat16(logits), spec)


def norm_of_each_head(x: np.ndarray, weight: np.ndarray, spec: ModelSpec) -> None:
    heads = x.reshape(len(x), -1, spec.head_dim)
    scale = 1 / np.sqrt(np.square(heads).mean(-1, keepdims=True) + spec.rms_eps)
    x[:] = (heads * scale).reshape(x.shape) * weight


def no_norm(x: np.ndarray, weight: np.ndarray, spec: ModelSpec) -> None:
    pass


def interleaved_pairs(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> None:
    cos, sin = cos[:, None], sin[:, None]
    even, odd = x[..., ::2].copy(), x[..., 1::2].copy()
    x[..., ::2], x[..., 1::2] = even * cos - odd * sin, odd * cos + even * sin


def gate_and_up_swapped(experts: Experts) -> Experts:
    return {at: (up, gate, down) for at, (gate, up, down) in experts.items()}


def down_transposed(experts: Experts) -> Experts:
    return {at: (gate, up, down.T) for at, (gate, up, down) in experts.items()}


def one_expert_unloaded(experts: Experts) -> Experts:
    return {**experts, (1, 3): tuple(np.zeros_like(part) for part in experts[1, 3])}


def all_experts_unloaded(experts: Experts) -> Experts:
    return {at: tuple(np.zeros_like(part) for part in expert) for at, expert in experts.items()}


@cache
def loaded(mode: str) -> tuple[ModelSpec, Mapping[str, np.ndarray], Experts]:
    """The checkpoint's spec, dense weights and experts, unspoilt."""
    with ExpertSource.open(CHECKPOINTS["random_olmoe"]) as source:
        dense = {name: source.dense(name) for name in source.dense_names}
        return source.spec, dense, read_experts(source, mode)


def run(
    mode: str,
    *,
    spec: Callable[[ModelSpec], ModelSpec] = lambda spec: spec,
    router: Router = route,
    experts: Callable[[Experts], Experts] = lambda experts: experts,
    longest: int | None = LONGEST,
) -> Comparison:
    right, dense, unspoilt = loaded(mode)
    wrong = spec(right)
    model = Resident(wrong, Decoder(wrong, dense.__getitem__), experts(unspoilt), router)
    return compare(Golden.load("random_olmoe", mode), model.forward, longest=longest)


TRAPS: dict[str, dict[str, object]] = {
    "renormalised": {"spec": lambda spec: replace(spec, router=replace(spec.router, renormalise=True))},
    "softmax over the top-k only": {"router": softmax_over_the_top_k_only},
    "sigmoid scores": {"spec": lambda spec: replace(spec, router=replace(spec.router, scoring="sigmoid"))},
    "router in bfloat16": {"router": router_in_bfloat16},
    "rms eps 1e-2": {"spec": lambda spec: replace(spec, rms_eps=1e-2)},
    "rope base 1e6": {"spec": lambda spec: replace(spec, rope_theta=1e6)},
    "gate and up swapped": {"experts": gate_and_up_swapped},
    "down transposed": {"experts": down_transposed},
    "one expert unloaded": {"experts": one_expert_unloaded},
    "all experts unloaded": {"experts": all_experts_unloaded},
}
PATCHES: dict[str, tuple[str, Callable[..., object]]] = {
    "q/k norm of each head": ("query_key_norm", norm_of_each_head),
    "no q/k norm": ("query_key_norm", no_norm),
    "interleaved rope": ("rotate_half", interleaved_pairs),
}


@pytest.mark.parametrize("mode", sorted(TOLERANCE))
@pytest.mark.parametrize("trap", [*TRAPS, *PATCHES])
def test_a_planted_trap_exceeds_the_tolerance(trap: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if trap in PATCHES:
        monkeypatch.setattr(layers, *PATCHES[trap])
    found = run(mode, **TRAPS.get(trap, {}))
    factor = found.max_abs_error / TOLERANCE[mode]
    flips = f"{found.route_flips} of {found.routes // 2} choices flipped"
    sys.stdout.write(f"{trap}, {mode}: {factor:.0f} times the tolerance, {flips}\n")
    assert factor > LEAST_FACTOR


def test_a_router_in_bfloat16_flips_routes() -> None:
    found = run("f32", router=router_in_bfloat16, longest=None)
    sys.stdout.write(f"router in bfloat16, all prompts: {found.route_flips} of {found.routes // 2} choices flipped\n")
    assert found.route_flips > 0
    assert found.ties == 0


@pytest.mark.parametrize("mode", sorted(TOLERANCE))
def test_without_a_plant_the_same_run_passes(mode: str) -> None:
    found = run(mode)
    assert found.max_abs_error < TOLERANCE[mode]
    assert found.route_flips == found.ties == found.missing_routes == 0
