"""Orders of experts on a simulated device: each is what it is called, and none beats the bound of its groups."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.routing import Routes
from estream_lab.simulate import MODELS, Settings, Workload, load_device, simulate
from estream_lab.simulate.workload import drawn_routes
from estream_lab.tuning import orders as module
from estream_lab.tuning.orders import halves, orders_of

PHONE = load_device("phone")
MODEL = replace(MODELS["lfm2"], layers=2)


def counted(*loads: list[int]) -> dict[int, Routes]:
    """Routes of layers whose experts have so many, one a token and layer."""
    return {
        layer: Routes.from_topk(np.repeat(np.arange(len(row)), row)[:, None].astype(np.int32),
                                np.ones((sum(row), 1), np.float32))
        for layer, row in enumerate(loads)
    }  # fmt: skip


def test_halves_are_of_the_tokens() -> None:
    routes, _ = drawn_routes(MODEL, 64)
    first, second = halves(routes)
    for layer, whole in routes.items():
        assert (first[layer].token.max(), second[layer].token.min(), second[layer].token.max()) == (31, 0, 31)
        assert (first[layer].counts(32) + second[layer].counts(32) == whole.counts(32)).all()
    with pytest.raises(EStreamError, match="routes of one token"):
        halves(counted([1, 0]))


@settings(max_examples=10)
@given(seed=st.integers(0, 100))
def test_no_order_of_the_groups_beats_the_bound(seed: int) -> None:
    routes, origin = drawn_routes(MODEL, 512, alpha=0.5, seed=seed)
    found = orders_of(PHONE, MODEL, routes, origin)
    for each in found:
        assert list(each.seconds) == ["id", "popularity", "descending work", "johnson"]
        assert each.bound_seconds <= min(each.seconds[name] for name in ("id", "descending work", "johnson")) * (
            1 + 1e-6  # a simulation counts whole ns
        )
        assert (each.model, each.routes) == (MODEL.title, f"synthetic (alpha 0.5, seed {seed})")
    assert [name for each in found for name in each.budgets] == ["low", "high"]
    assert len({each.settings for each in found}) == len(found)


def test_each_order_is_what_it_is_called() -> None:
    routes, origin = drawn_routes(MODEL, 256, alpha=0.3)
    before, asked = (Workload.of_routes(MODEL, half, origin) for half in halves(routes))
    found, *_ = orders_of(PHONE, MODEL, routes, origin)
    size = found.settings.group_size
    popular = [np.argsort(-row, kind="stable").astype(np.int32) for row in before.loads]
    groups = [np.argsort(-row, kind="stable") for row in asked.rows(size)]
    work = [(row[:, None] * size + np.arange(size)).ravel().astype(np.int32) for row in groups]
    for name, order in (("popularity", popular), ("descending work", work)):
        assert found.seconds[name] == simulate(PHONE, asked.in_order(order), found.settings).seconds, name
    assert found.seconds["id"] == simulate(PHONE, asked, found.settings).seconds
    assert len(set(found.seconds.values())) > 1


def test_a_last_group_that_is_not_full_stays_last() -> None:
    model = replace(MODEL, layers=1, experts=10)
    asked, four = Workload.of_routes(model, counted([1, 1, 1, 1, 5, 5, 5, 5, 19, 19]), "by hand"), Settings(4, 2, 1)
    (descending,) = module._descending(asked, four)
    assert descending.tolist() == [2, 1, 0]
    (order,) = module._by_groups(asked, four, [descending])
    assert order.tolist() == [4, 5, 6, 7, 0, 1, 2, 3, 8, 9]
