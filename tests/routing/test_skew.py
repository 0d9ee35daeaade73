"""The summary of skew, on counts worked out by hand."""

import json

import numpy as np
import pytest

from estream_lab.routing import Routes, skew


def routes_with(counts: list[int]) -> Routes:
    expert = np.repeat(np.arange(len(counts)), counts)
    return Routes(np.arange(len(expert)), expert, np.ones(len(expert)))


def test_even_routes_use_every_expert_fully() -> None:
    summary = skew(routes_with([10] * 8), 8, threshold=10)
    assert summary.effective_experts == pytest.approx(8)
    assert (summary.routes, summary.active_experts, summary.busiest_share, summary.share_in_filled) == (80, 8, 0.125, 1)


def test_shares_are_of_routes() -> None:
    summary = skew(routes_with([64, 63, 0, 1]), 4)
    assert summary.share_in_filled == 0.5
    assert summary.busiest_share == 0.5
    assert summary.active_experts == 3
    assert summary.effective_experts == pytest.approx(
        np.exp(-(0.5 * np.log(0.5) + 63 / 128 * np.log(63 / 128) + 1 / 128 * np.log(1 / 128)))
    )
    assert json.loads(json.dumps(summary.to_json()))["threshold"] == 64


def test_no_routes_have_no_skew() -> None:
    assert skew(routes_with([]), 4).to_json() == {
        "routes": 0, "active_experts": 0, "effective_experts": 0.0, "busiest_share": 0.0, "threshold": 64,
        "share_in_filled": 0.0,
    }  # fmt: skip


def test_the_largest_expert_id_takes_no_memory() -> None:
    assert skew(Routes([0, 1], [2**31 - 1, 5], [1, 1]), 2**31).active_experts == 2
    with pytest.raises(ValueError, match="a route names expert 5 of 4"):
        skew(Routes([0], [5], [1]), 4)
