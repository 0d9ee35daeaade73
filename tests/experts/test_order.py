"""Expert orders: always permutations, true to their names, and of use on prompts that they have not seen."""

import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.experts.order import (
    ORDERS,
    CoActivation,
    ExpertOrder,
    by_co_activation,
    by_popularity,
    groups_touched,
    together,
)
from estream_lab.routing import Routes, synthetic_routes
from tests.golden_compare import Golden


def drawn(tokens: int, experts: int, top_k: int, seed: int, alpha: float = 1.0) -> Routes:
    return synthetic_routes(tokens, experts, top_k, alpha=alpha, seed=seed)


@given(
    name=st.sampled_from(sorted(ORDERS)), tokens=st.integers(0, 40), experts=st.integers(1, 33),
    seed=st.integers(0, 99), alpha=st.sampled_from([0.05, 1.0, 20.0]), data=st.data(),
)  # fmt: skip
def test_every_order_is_a_permutation_and_the_same_each_time(
    name: str, tokens: int, experts: int, seed: int, alpha: float, data: st.DataObject
) -> None:
    routes = drawn(tokens, experts, data.draw(st.integers(1, experts)), seed, alpha)
    order = ORDERS[name](routes, experts)
    assert order.dtype == np.int32 and sorted(order.tolist()) == list(range(experts))
    assert np.array_equal(order, ORDERS[name](routes, experts))
    assert name != "id" or order.tolist() == list(range(experts))


@given(tokens=st.integers(0, 40), experts=st.integers(1, 33), seed=st.integers(0, 99))
def test_popularity_has_falling_loads_and_ties_by_id(tokens: int, experts: int, seed: int) -> None:
    routes = drawn(tokens, experts, min(2, experts), seed)
    order, loads = by_popularity(routes, experts), routes.counts(experts)
    keys = [(-int(loads[e]), int(e)) for e in order]
    assert keys == sorted(keys)


@given(
    blocks=st.integers(2, 9), size=st.sampled_from([2, 4, 8]), seed=st.integers(0, 10_000),
    skew=st.sampled_from([0.5, 2.0, 50.0]),
)  # fmt: skip
def test_co_activation_finds_the_blocks_that_were_planted(blocks: int, size: int, seed: int, skew: float) -> None:
    """Tokens choose two experts of one block; blocks are of unequal popularity and their members scattered."""
    rng, experts = np.random.default_rng(seed), blocks * size
    members = rng.permutation(experts).reshape(blocks, size)
    pairs = np.array([(i, j) for i in range(size) for j in range(size) if i != j])
    drawn_blocks = np.concatenate(
        [rng.choice(blocks, 20 * experts, p=rng.dirichlet(np.full(blocks, skew))), np.repeat(np.arange(blocks), 9)]
    )
    ids = [members[b][pairs[rng.integers(len(pairs))]] for b in drawn_blocks]
    ids += [members[b][pair] for b in range(blocks) for pair in pairs]  # so that every block hangs together
    routes = Routes.from_topk(np.array(ids), np.ones((len(ids), 2), np.float32))
    order = by_co_activation(routes, experts)
    found = {frozenset(order[at : at + size].tolist()) for at in range(0, experts, size)}
    assert found == {frozenset(block.tolist()) for block in members}
    assert groups_touched(routes, order, size) == 1


def test_co_activation_is_symmetric_and_counts_runs_of_tokens() -> None:
    routes = Routes.from_topk([[0, 1], [1, 2], [1, 1], [3, 0]], np.ones((4, 2), np.float32))
    assert together(routes, 5).tolist() == [
        [0, 1, 0, 1, 0], [1, 0, 1, 0, 0], [0, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]
    ]  # fmt: skip
    assert together(routes, 5, window=2).tolist() == [
        [0, 2, 1, 1, 0], [2, 0, 1, 1, 0], [1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]
    ]  # fmt: skip


@given(experts=st.integers(2, 24), seed=st.integers(0, 10_000))
@example(experts=16, seed=62)  # one pass doesn't do here
def test_no_swap_lightens_a_cut_of_co_activation(experts: int, seed: int) -> None:
    routes = drawn(60, experts, 2, seed)
    order, weights = by_co_activation(routes, experts), together(routes, experts)
    size = 1 << (experts - 1).bit_length() - 1  # the first cut: the largest power of two that leaves something
    left, right = set(order[:size].tolist()), set(order[size:].tolist())

    def crossing(one: set[int], other: set[int]) -> int:
        return int(weights[np.ix_(sorted(one), sorted(other))].sum())

    for i in left:
        for j in right:
            assert crossing(left - {i} | {j}, right - {j} | {i}) >= crossing(left, right)


def test_the_more_popular_half_comes_first() -> None:
    """Early reads take it first. Swaps begin with 0 and 1 on one side and end with 1 and 3 there."""
    ids = [[0, 2]] * 5 + [[0, 0]] * 3 + [[1, 3]] * 4 + [[1, 1]] * 2
    order = by_co_activation(Routes.from_topk(ids, np.ones((len(ids), 2), np.float32)), 4)
    assert order.tolist() == [0, 2, 1, 3]


def test_groups_touched_counts_each_group_once_a_run() -> None:
    routes = Routes.from_topk([[0, 4], [0, 1], [2, 3]], np.ones((3, 2), np.float32))
    identity, other = np.arange(5, dtype=np.int32), np.array([4, 0, 1, 2, 3], np.int32)
    assert groups_touched(routes, identity, 2) == (2 + 1 + 1) / 3  # the last group holds expert 4 alone
    assert groups_touched(routes, other, 2) == (1 + 2 + 2) / 3
    assert groups_touched(routes, identity, 2, window=3) == 3


@pytest.fixture(scope="module")
def halves() -> tuple[list[Routes], list[Routes]]:
    """The shipped model's routes by layer: of two prompts to order by, text and code, and of nine others."""
    prompts = [p for p in Golden.load("tiny_moe", "f32").prompts if len(p.tokens) >= 31]
    seen = [p for p in prompts if len(p.tokens) == 1024]
    unseen = [p for p in prompts if len(p.tokens) != 1024]
    assert {p.domain for p in seen} == {p.domain for p in unseen} == {"text", "code"}

    def routes(layer: int, of: list) -> Routes:
        ids = np.concatenate([p.ids[layer] for p in of])
        return Routes.from_topk(ids, np.ones(ids.shape, np.float32))

    return [routes(layer, seen) for layer in range(4)], [routes(layer, unseen) for layer in range(4)]


def touched(halves: tuple[list[Routes], list[Routes]], order, group_size: int, window: int) -> float:
    layers = [groups_touched(unseen, order(seen, 16), group_size, window) for seen, unseen in zip(*halves, strict=True)]
    return float(np.mean(layers))


@pytest.mark.parametrize("group_size", [2, 4, 8])
@pytest.mark.parametrize("window", [1, 16])
def test_on_the_shipped_model_co_activation_touches_fewer_groups_of_unseen_prompts(
    halves: tuple[list[Routes], list[Routes]], group_size: int, window: int
) -> None:
    rng = np.random.default_rng(0)
    random = np.mean(
        [touched(halves, lambda *_: rng.permutation(16).astype(np.int32), group_size, window) for _ in range(20)]
    )
    found = {name: touched(halves, order, group_size, window) for name, order in ORDERS.items()}
    of_window = touched(halves, CoActivation(window), group_size, window)
    figures = " ".join(f"{name} {value:.3f}" for name, value in (found | {"of this window": of_window}).items())
    sys.stdout.write(f"groups of {group_size}, runs of {window}: random {random:.3f} {figures}\n")
    assert of_window < min(random, found["id"])
    assert window > 1 or found["co-activation"] < min(random, found["id"], found["popularity"])


def model_routes(layers: int = 2, experts: int = 6, top_k: int = 2) -> dict[int, Routes]:
    return {layer: drawn(20, experts, top_k, layer) for layer in range(layers)}


def test_an_order_of_every_layer_says_where_it_comes_from() -> None:
    routes = model_routes()
    found = ExpertOrder.of("popularity", routes, 2, 6, 2, "a prompt")
    assert [o.tolist() for o in found.layers] == [by_popularity(routes[layer], 6).tolist() for layer in (0, 1)]
    origin = found.to_json()
    assert (origin["name"], origin["routes"], origin["tokens"]) == ("popularity", "a prompt", 20)
    same = ExpertOrder.of(by_popularity, routes, 2, 6, 2, "a prompt").to_json()
    weighed = {layer: Routes(r.token, r.expert, r.weight * 2) for layer, r in routes.items()}
    assert same == origin == ExpertOrder.of("popularity", weighed, 2, 6, 2, "a prompt").to_json()
    other = ExpertOrder.of("popularity", {0: routes[0], 1: routes[0]}, 2, 6, 2, "a prompt").to_json()
    assert other["routes_checksum"] != origin["routes_checksum"]
    busiest_last = ExpertOrder.of(lambda r, e: by_popularity(r, e)[::-1], routes, 2, 6, 2, "a prompt").to_json()
    assert busiest_last["routes_checksum"] == origin["routes_checksum"]
    assert busiest_last["checksum"] != origin["checksum"] and busiest_last["name"] == "<lambda>"
    assert ExpertOrder.of(CoActivation(16), routes, 2, 6, 2, "a prompt").name == "CoActivation"


@pytest.mark.parametrize(
    ("routes", "message"),
    [
        ({0: drawn(20, 6, 2, 0)}, r"r\.csv has no routes for layer 1 of the model's 2: give the routes of this model"),
        ({0: drawn(20, 6, 2, 0), 1: drawn(0, 6, 2, 0)}, "no routes for layer 1"),
        (model_routes(3), "has routes for layer 2 of a model of 2 layers"),
        (model_routes(experts=9), "names expert 8 in layer 0 of 6 experts"),
        (model_routes(top_k=3), "sends a token to 3 experts where the model has 2"),
    ],
)
def test_routes_of_another_model_are_refused(routes: dict[int, Routes], message: str) -> None:
    with pytest.raises(EStreamError, match=message):
        ExpertOrder.of("popularity", routes, 2, 6, 2, "r.csv")


@pytest.mark.parametrize("wrong", [[0, 1, 2, 3, 4, 4], [0, 1, 2, 3, 4], [1, 2, 3, 4, 5, 6], "none", None])
def test_an_order_that_is_no_permutation_is_refused(wrong: object) -> None:
    def mine(routes: Routes, experts: int) -> object:
        return wrong

    with pytest.raises(EStreamError, match="the order 'mine' gives no permutation of 6 experts"):
        ExpertOrder.of(mine, model_routes(), 2, 6, 2, "r.csv")  # type: ignore[arg-type]


def test_an_unknown_order_names_the_known_ones() -> None:
    with pytest.raises(EStreamError, match="unknown expert order 'best': choose one of id, popularity, co-activation"):
        ExpertOrder.of("best", model_routes(), 2, 6, 2, "r.csv")
