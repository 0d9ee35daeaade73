"""Shares of experts and routes, by hand and of the shipped model."""

from pathlib import Path

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.routing import Routes, synthetic_routes
from estream_lab.simulate import MODELS
from estream_lab.tuning.paper import routes
from estream_lab.tuning.paper.routes import THEIR_ROUTES, TOUCHED, WELL_FILLED, Prompt, Size, beginning

SHIPPED = Path(__file__).parents[3] / "data" / "tiny_moe"
SMALL = Size(("mixtral",), (128, 1024), (64, 256))


def test_shares_count_experts_and_their_routes() -> None:
    found = routes.shares(np.array([[64, 63, 0, 1], [128, 0, 0, 0]]))
    assert found == {WELL_FILLED: 100 * 2 / 8, THEIR_ROUTES: 100 * 192 / 256, TOUCHED: 100 * 4 / 8}


def test_a_shorter_synthetic_prompt_is_the_beginning_of_a_longer_one() -> None:
    long, short = (synthetic_routes(tokens, 16, 3, alpha=2.0, seed=4) for tokens in (40, 25))
    assert beginning(long, 25) == short
    assert beginning(long, 40) == beginning(long, 99) == long
    assert len(beginning(long, 0)) == 0


def test_a_shipped_prompt_is_the_beginning_of_a_longer_one() -> None:
    """Attention looks back only."""
    text = (SHIPPED / "heldout" / "text.txt").read_text("utf-8")
    long, short = (routes.shipped(SHIPPED / "checkpoint", text, Size((), (), (length,))) for length in (96, 64))
    assert long.model.title == short.model.title == "tiny_moe" and long.kind == "measured"
    assert np.array_equal(long.first(64).loads, short.first(64).loads)
    assert long.first(64).loads.sum(axis=1).tolist() == [64 * long.model.top_k] * long.model.layers


def test_a_text_that_is_too_short_is_told() -> None:
    with pytest.raises(EStreamError, match="has 5 tokens and 256 are asked for"):
        routes.shipped(SHIPPED / "checkpoint", "short", SMALL)


def test_every_prompt_has_its_marks_at_its_lengths_and_the_published_share_is_olmoes() -> None:
    one = Routes(np.zeros(2, np.int32), np.array([0, 1], np.int32), np.ones(2, np.float32))
    olmoe = Prompt(MODELS["olmoe"], dict.fromkeys(range(16), one), "measured", "made up")
    made = routes.marks({**dict.fromkeys(routes.drawn(SMALL), SMALL.tokens), olmoe: (1,)})
    found = {(mark.of, mark.quantity, mark.kind): mark.value for mark in made}
    assert found["Mixtral-8x7B, 1024 tokens", WELL_FILLED, "simulated"] == 100
    assert found["Mixtral-8x7B, 128 tokens", THEIR_ROUTES, "simulated"] < 50
    assert found["OLMoE-1B-7B, 1 tokens", f"{TOUCHED}, layer 15", "measured"] == 100 * 2 / 64
    assert found["OLMoE-1B-7B, 1024 tokens", THEIR_ROUTES, "published"] == 94.8
    assert len(found) == 2 * 3 + 3 + 16 + 1
    assert {mark.of for mark in routes.at(made, 128)} == {"Mixtral-8x7B, 128 tokens"} and len(routes.at(made, 128)) == 3
    assert not [mark for mark in routes.marks(dict.fromkeys(routes.drawn(SMALL), (128,))) if mark.kind == "published"]


def test_the_published_share_lies_between_that_of_experts_and_that_of_routes() -> None:
    (olmoe,) = routes.drawn(Size(("olmoe",), (1024,), ()))
    found = routes.shares(olmoe.first(1024).loads)
    assert found[WELL_FILLED] < 94.8 < found[THEIR_ROUTES]
    assert olmoe.touched()[127] == pytest.approx(64, abs=0.5)
