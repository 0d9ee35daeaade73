"""The comparison with the goldens sees what it should: every kind of difference, planted into a perfect answer."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from estream_lab.routing import Routes

from .golden_compare import Comparison, Golden, GoldenPrompt, compare

TOKENS, LAYERS, TOP_K, EXPERTS, VOCAB = 6, 2, 2, 5, 7


def golden(margins: Mapping[tuple[int, int], float] | None = None) -> Golden:
    rng = np.random.default_rng(5)
    prompt = GoldenPrompt(
        domain="text",
        tokens=np.arange(TOKENS, dtype=np.int32),
        positions=np.array([0, 3, 5], np.int32),
        logits=rng.standard_normal((3, VOCAB)).astype(np.float32),
        ids=np.argsort(rng.random((LAYERS, TOKENS, EXPERTS)), axis=-1)[..., :TOP_K].astype(np.uint8),
        weights=rng.random((LAYERS, TOKENS, TOP_K)).astype(np.float32),
        margins=margins or {},
    )
    return Golden(Path(), "f32", {}, (prompt,))


def answer(of: Golden) -> tuple[np.ndarray, dict[int, Routes]]:
    """What a perfect engine returns."""
    prompt = of.prompts[0]
    logits = np.full((TOKENS, VOCAB), 100, np.float32)
    logits[prompt.positions] = prompt.logits
    return logits, {layer: Routes.from_topk(prompt.ids[layer], prompt.weights[layer]) for layer in range(LAYERS)}


def compared(of: Golden, logits: np.ndarray, routes: Mapping[int, Routes]) -> Comparison:
    return compare(of, lambda tokens: (logits, routes))


def other_expert(routes: Routes, at: int) -> Routes:
    """The route's expert replaced by one that the token doesn't visit."""
    expert = routes.expert.copy()
    visited = set(expert[routes.token == routes.token[at]].tolist())
    expert[at] = min(set(range(EXPERTS)) - visited)
    return replace(routes, expert=expert)


def test_a_perfect_answer() -> None:
    perfect = Comparison(0.0, 0.0, 0, 0, 0, LAYERS * TOKENS * TOP_K)
    assert compared(golden(), *answer(golden())) == perfect


def test_the_order_of_a_tokens_routes_is_open() -> None:
    logits, routes = answer(golden())
    turned = {
        layer: Routes.from_topk(r.expert.reshape(-1, TOP_K)[:, ::-1], r.weight.reshape(-1, TOP_K)[:, ::-1])
        for layer, r in routes.items()
    }
    found = compared(golden(), logits, turned)
    assert found.route_flips == found.max_weight_error == 0


@pytest.mark.parametrize("wrong", [0.5, np.nan])
def test_a_wrong_logit_at_a_recorded_position(wrong: float) -> None:
    logits, routes = answer(golden())
    logits[3, 4] += wrong
    assert compared(golden(), logits, routes).max_abs_error == pytest.approx(np.inf if np.isnan(wrong) else 0.5)


@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_wrong_weight(layer: int) -> None:
    logits, routes = answer(golden())
    weight = routes[layer].weight.copy()
    weight[7] += np.float32(0.25)
    found = compared(golden(), logits, {**routes, layer: replace(routes[layer], weight=weight)})
    assert found.max_weight_error == pytest.approx(0.25)
    assert found.route_flips == 0


@pytest.mark.parametrize(("margin", "flips", "ties"), [(None, 1, 0), (5e-6, 1, 0), (1e-6, 1, 0), (9e-7, 0, 1)])
def test_another_expert_is_a_flip_unless_the_reference_was_undecided(
    margin: float | None, flips: int, ties: int
) -> None:
    of = golden({} if margin is None else {(1, 4): margin})
    logits, routes = answer(of)
    found = compared(of, logits, {**routes, 1: other_expert(routes[1], 4 * TOP_K)})
    assert (found.route_flips, found.ties) == (flips, ties)
    elsewhere = compared(of, logits, {**routes, 0: other_expert(routes[0], 4 * TOP_K)})
    assert (elsewhere.route_flips, elsewhere.ties) == (1, 0)


def test_a_missing_route() -> None:
    logits, routes = answer(golden())
    short = Routes(routes[0].token[1:], routes[0].expert[1:], routes[0].weight[1:])
    assert compared(golden(), logits, {**routes, 0: short}).missing_routes == 1


def test_a_missing_layer() -> None:
    logits, routes = answer(golden())
    with pytest.raises(AssertionError):
        compared(golden(), logits, {0: routes[0]})


def test_long_prompts_can_be_left_out() -> None:
    found = compare(golden(), lambda tokens: answer(golden()), longest=TOKENS - 1)
    assert found.routes == 0
