"""The published routers side by side on the same logits."""

import numpy as np
import pytest

from estream_lab.routing import route
from estream_lab.routing.published import PUBLISHED_ROUTERS, resized

LOGITS = np.random.default_rng(0).normal(0, 2, (50, 16)).astype(np.float32)


def test_only_two_families_leave_the_weights_below_one() -> None:
    sums = {
        name: route(LOGITS, spec).weight.reshape(50, 2).sum(axis=1)
        for name, spec in resized(PUBLISHED_ROUTERS, 16, 2).items()
    }
    below = {name for name, total in sums.items() if (total < 0.99).all()}
    assert below == {"OLMoE-1B-7B", "DeepSeek-V2-Lite"}
    for name in set(sums) - below:
        assert sums[name] == pytest.approx(1, abs=1e-5)
    assert (sums["LFM2-8B-A1B"] < 1).any()  # its sum is taken 1e-6 larger


def test_softmax_and_sigmoid_choose_the_same_experts_of_the_same_logits() -> None:
    chosen = {name: route(LOGITS, spec).expert.tolist() for name, spec in resized(PUBLISHED_ROUTERS, 16, 2).items()}
    assert all(ids == chosen["OLMoE-1B-7B"] for ids in chosen.values())


def test_sizes_are_the_published_ones() -> None:
    sizes = {name: (spec.experts, spec.top_k) for name, spec in PUBLISHED_ROUTERS.items()}
    assert sizes == {
        "OLMoE-1B-7B": (64, 8),
        "DeepSeek-V2-Lite": (64, 6),
        "Qwen3-30B-A3B": (128, 8),
        "Mixtral-8x7B": (8, 2),
        "LFM2-8B-A1B": (32, 4),
    }
