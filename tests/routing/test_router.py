"""Routers follow each family's rule in fp32."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from estream_lab.routing import Router, RouterSpec, Routes, route

F32 = NDArray[np.float32]
OLMOE = RouterSpec(experts=8, top_k=3, renormalise=False)
LOGITS = hnp.arrays(np.float32, st.tuples(st.integers(0, 6), st.just(8)), elements=st.floats(-30, 30, width=32))


def softmax(logits: F32) -> NDArray[np.float64]:
    e = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@given(LOGITS)
def test_softmax_over_all_experts_then_the_largest_k(logits: F32) -> None:
    routes = route(logits, OLMOE)
    ids, weights = routes.expert.reshape(-1, 3), routes.weight.reshape(-1, 3)
    scores = softmax(logits)
    assert np.allclose(
        weights, np.take_along_axis(scores, ids, axis=1), rtol=1e-5, atol=1e-12
    )  # fp32 differences of logits
    assert (np.diff(weights, axis=1) <= 0).all()  # descending, as torch.topk
    for token, row in enumerate(scores):
        rest = np.delete(row, ids[token])
        assert len(rest) == 5  # distinct experts
        assert rest.max() <= weights[token].min() * (1 + 1e-5)
    assert (weights.sum(axis=1) < 1 + 1e-6).all()  # not renormalised


@given(st.integers(1, 40), st.integers(0, 40), st.integers(0, 2**32 - 1))
def test_a_token_does_not_depend_on_its_chunk(tokens: int, cut: int, seed: int) -> None:
    logits = np.random.default_rng(seed).standard_normal((tokens, 61)).astype(np.float32)
    spec = RouterSpec(experts=61, top_k=6, renormalise=True)
    whole = route(logits, spec)
    for part, first in ((logits[:cut], 0), (logits[cut:], min(cut, tokens))):
        routes = route(part, spec)
        here = slice(6 * first, 6 * (first + len(part)))
        assert np.array_equal(routes.expert, whole.expert[here])
        assert np.array_equal(routes.weight, whole.weight[here])


def test_equal_scores_go_to_the_lower_id_first() -> None:
    logits = np.array([[1, 5, 5, 1, 5, 0, 5, 1], [0] * 8, [-0.0, 0.0, 2, 2, -0.0, 0, 0, 2]], np.float32)
    assert route(logits, OLMOE).expert.reshape(-1, 3).tolist() == [[1, 2, 4], [0, 1, 2], [2, 3, 7]]


def test_sum_of_weights_shows_what_was_not_chosen() -> None:
    logits = np.zeros((1, 8), np.float32)
    assert route(logits, OLMOE).weight.tolist() == [0.125] * 3
    renormalised = RouterSpec(experts=8, top_k=3, renormalise=True, scale=2.0)
    assert np.allclose(route(logits, renormalised).weight, 2 / 3)


@given(LOGITS)
def test_bias_chooses_but_does_not_weigh(logits: F32) -> None:
    lfm2 = RouterSpec(experts=8, top_k=2, scoring="sigmoid", renormalise=True, renormalise_epsilon=1e-6)
    bias = np.array([0, 0, 0, 9, 0, 5, 0, 0], np.float32)
    routes = route(logits, lfm2, bias)
    assert routes.expert.reshape(-1, 2).tolist() == [[3, 5]] * len(logits)
    scores = 1 / (1 + np.exp(-logits[:, [3, 5]].astype(np.float64)))
    expected = scores / (scores.sum(axis=1, keepdims=True) + 1e-6)
    assert np.allclose(routes.weight.reshape(-1, 2), expected, rtol=1e-5, atol=1e-9)


def test_extreme_logits_neither_overflow_nor_warn() -> None:
    logits = np.array([[3e38, -3e38, 0, 1, 2, 3, 4, 5]], np.float32)
    assert route(logits, OLMOE).weight.tolist() == [1.0, 0.0, 0.0]
    sigmoid = RouterSpec(experts=8, top_k=1, scoring="sigmoid", renormalise=False)
    assert route(logits, sigmoid).weight.tolist() == [1.0]
    assert route(-np.abs(logits), sigmoid).weight.tolist() == [0.5]


def test_refuses_wrong_shapes_and_numbers() -> None:
    with pytest.raises(ValueError, match=r"\(T, 8\), not \(2, 7\)"):
        route(np.zeros((2, 7), np.float32), OLMOE)
    with pytest.raises(ValueError, match="not finite"):
        route(np.full((2, 8), np.nan, np.float32), OLMOE)
    with pytest.raises(ValueError, match=r"bias must have shape \(8,\)"):
        route(np.zeros((2, 8), np.float32), OLMOE, np.zeros(7, np.float32))


def test_spec_survives_json_and_refuses_odd_keys() -> None:
    spec = RouterSpec(experts=32, top_k=4, scoring="sigmoid", renormalise=True, scale=1.5, renormalise_epsilon=1e-6)
    values = json.loads(json.dumps(spec.to_json()))
    assert RouterSpec.from_json(values) == spec
    with pytest.raises(ValueError, match="check: topk"):
        RouterSpec.from_json({**values, "topk": 4})
    for key, value in {"top_k": 4.0, "renormalise": "no", "scale": True, "experts": "32", "scoring": None}.items():
        with pytest.raises(ValueError, match=f"{key} is|unknown scoring"):
            RouterSpec.from_json({**values, key: value})
    del values["renormalise"]
    with pytest.raises(ValueError, match="check: renormalise"):
        RouterSpec.from_json(values)


@pytest.mark.parametrize(
    "wrong", [{"top_k": 9}, {"top_k": 0}, {"scoring": "tanh"}, {"scale": np.inf}, {"renormalise_epsilon": -1.0}]
)
def test_spec_refuses_impossible_rules(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="cannot choose|unknown scoring|finite"):
        RouterSpec(**{"experts": 8, "top_k": 2, "renormalise": False, **wrong})  # type: ignore[arg-type]


SPECS = st.builds(
    RouterSpec,
    experts=st.just(8),
    top_k=st.integers(1, 8),
    scoring=st.sampled_from(["softmax", "sigmoid"]),
    renormalise=st.booleans(),
    scale=st.sampled_from([1.0, 2.5]),
    renormalise_epsilon=st.sampled_from([0.0, 1e-6]),
)
TIES = hnp.arrays(np.float32, st.tuples(st.integers(0, 6), st.just(8)), elements=st.sampled_from([-0.0, 0.0, 1.0, 2.0]))
BIASES = st.none() | hnp.arrays(np.float32, 8, elements=st.floats(-2, 2, width=32))


def chosen(router: Router, logits: F32, bias: F32 | None = None) -> Routes:
    tokens, k = len(logits), router.spec.top_k
    expert, weight = np.full((tokens, k), -1, np.int32), np.full((tokens, k), np.nan, np.float32)
    router.choose(logits, expert, weight, bias)
    return Routes.from_topk(expert, weight)


@given(SPECS, st.lists(st.tuples(st.one_of(LOGITS, TIES), BIASES), min_size=1, max_size=4))
def test_a_router_chooses_the_bits_of_the_plain_rule(spec: RouterSpec, layers: list[tuple[F32, F32 | None]]) -> None:
    """One layer after the other in the same arrays: routes compare weights bit for bit."""
    router = Router(spec, 6)
    for logits, bias in layers:
        assert chosen(router, logits, bias) == route(logits, spec, bias)


@given(st.integers(1, 70), st.integers(9, 130), st.integers(8, 9), st.integers(0, 2**32 - 1))
def test_a_router_of_many_experts_too(tokens: int, experts: int, top_k: int, seed: int) -> None:
    logits = (4 * np.random.default_rng(seed).standard_normal((tokens, experts))).astype(np.float32)
    for scoring in ("softmax", "sigmoid"):
        spec = RouterSpec(experts=experts, top_k=top_k, scoring=scoring, renormalise=True)  # type: ignore[arg-type]
        assert chosen(Router(spec, 70), logits) == route(logits, spec)


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
def test_a_router_allocates_nothing_for_its_tokens(scoring: str) -> None:
    spec = RouterSpec(experts=16, top_k=3, scoring=scoring, renormalise=True)  # type: ignore[arg-type]
    router, bias = Router(spec, 4096), np.ones(16, np.float32)
    logits = np.random.default_rng(0).standard_normal((4096, 16)).astype(np.float32)
    expert, weight = np.empty((4096, 3), np.int32), np.empty((4096, 3), np.float32)
    router.choose(logits, expert, weight, bias)
    tracemalloc.start()
    try:
        router.choose(logits, expert, weight, bias)
        tracemalloc.reset_peak()
        start, _ = tracemalloc.get_traced_memory()
        router.choose(logits, expert, weight, bias)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Views, and NumPy's records of an operation; one number a token would have 16 KB.
    assert peak - start < 8192


def test_a_router_knows_its_bytes_and_refuses_what_it_has_no_room_for() -> None:
    router = Router(OLMOE, 5)
    assert router.nbytes == Router.bytes_for(8, 5)
    with pytest.raises(ValueError, match=r"\(6, 8\) don't fit a router of \(5, 8\)"):
        chosen(router, np.zeros((6, 8), np.float32))
    with pytest.raises(ValueError, match=r"\(2, 7\) don't fit"):
        chosen(router, np.zeros((2, 7), np.float32))
    with pytest.raises(ValueError, match=r"isn't \(2, 3\)"):
        router.choose(np.zeros((2, 8), np.float32), np.empty((2, 2), np.int32), np.empty((2, 2), np.float32))
    with pytest.raises(ValueError, match="a router logit is not finite"):
        chosen(router, np.full((2, 8), np.inf, np.float32))
    for bias, message in ((np.zeros(7), r"shape \(8,\)"), (np.full(8, np.nan), "bias is not finite")):
        with pytest.raises(ValueError, match=message):
            chosen(router, np.zeros((2, 8), np.float32), bias.astype(np.float32))
