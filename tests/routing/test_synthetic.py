"""Synthetic routes are reproducible, without replacement, and as skewed as the public models."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.routing import skew, synthetic_routes


@given(st.integers(0, 40), st.integers(1, 20), st.data())
def test_each_token_visits_k_distinct_experts(tokens: int, experts: int, data: st.DataObject) -> None:
    top_k = data.draw(st.integers(1, experts))
    alpha = data.draw(st.sampled_from([1e-3, 0.75, 3.0, 1e3]))
    routes = synthetic_routes(tokens, experts, top_k, alpha=alpha, seed=1)
    ids, weights = routes.expert.reshape(tokens, top_k), routes.weight.reshape(tokens, top_k)
    assert all(len(set(row)) == top_k for row in ids.tolist())
    assert routes.token.tolist() == np.repeat(np.arange(tokens), top_k).tolist()
    assert ids.size == 0 or ids.max() < experts
    assert (weights >= 0).all()
    assert (np.diff(weights, axis=1) <= 0).all()
    assert (weights.sum(axis=1) <= 1 + 1e-6).all()


def test_the_seed_decides() -> None:
    def draw(seed: int, alpha: float = 3.0):
        return synthetic_routes(64, 16, 4, alpha=alpha, seed=seed)

    assert draw(5) == draw(5)
    assert draw(5) != draw(6)
    assert draw(5) != draw(5, alpha=4.0)


def test_olmoe_skew_is_the_recorded_one() -> None:
    """With alpha 3 to 4, 94 to 95 % of routes lie in experts with 64 routes or more, at T = 1024."""
    shares = [
        skew(synthetic_routes(1024, 64, 8, alpha=alpha, seed=seed), 64).share_in_filled
        for alpha in (3.0, 3.5, 4.0)
        for seed in range(16)  # OLMoE's 16 layers
    ]
    assert 0.94 <= np.mean(shares) <= 0.955


def test_olmoe_touches_all_experts_from_128_tokens_on() -> None:
    active = [skew(synthetic_routes(128, 64, 8, alpha=3.5, seed=seed), 64).active_experts for seed in range(16)]
    assert np.mean(active) > 63.5


def test_smaller_alpha_is_more_skewed() -> None:
    effective = [skew(synthetic_routes(512, 64, 8, alpha=a, seed=0), 64).effective_experts for a in (0.5, 3, 30, 1000)]
    assert effective == sorted(effective)
    assert effective[-1] > 63


def test_without_replacement_follows_the_popularity() -> None:
    """Two draws of three experts with shares p: P(first = i, second = j) = p_i p_j / (1 - p_i)."""
    tokens = 200_000
    routes = synthetic_routes(tokens, 3, 2, alpha=2.0, seed=3)
    ids = routes.expert.reshape(tokens, 2)
    p = np.bincount(ids[:, 0], minlength=3) / tokens
    for i in range(3):
        for j in range(3):
            seen = ((ids[:, 0] == i) & (ids[:, 1] == j)).mean()
            expected = 0 if i == j else p[i] * p[j] / (1 - p[i])
            assert abs(seen - expected) < 0.006  # five standard deviations, both sides


@pytest.mark.parametrize(
    ("tokens", "experts", "top_k", "alpha"),
    [(-1, 4, 2, 1), (4, 4, 5, 1), (4, 4, 0, 1), (4, 4, 2, 0), (4, 4, 2, np.nan)],
)
def test_refuses_impossible_draws(tokens: int, experts: int, top_k: int, alpha: float) -> None:
    with pytest.raises(ValueError, match="cannot draw|alpha must be above 0"):
        synthetic_routes(tokens, experts, top_k, alpha=alpha, seed=0)
