"""Who visits which group."""

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.routing import Routes, synthetic_routes
from estream_lab.simulate.models import MODELS
from estream_lab.simulate.workload import Workload

from .devices import MODEL, workload


def test_groups_have_the_routes_of_their_experts_and_the_last_may_be_smaller() -> None:
    asked = workload([1, 0, 2, 3, 4])
    assert asked.rows(2).tolist() == [[1, 5, 4]] * 2
    assert asked.rows(5).tolist() == [[10]] * 2
    for size in (0, 6):
        with pytest.raises(EStreamError, match=f"don't make groups of {size}: choose 1 to 5"):
            asked.rows(size)


def test_a_stores_order_makes_its_groups() -> None:
    asked = workload([1, 0, 2, 3, 4], [5, 6, 7, 8, 9]).in_order([np.array([4, 2, 0, 1, 3]), np.array([0, 1, 2, 3, 4])])
    assert asked.rows(2).tolist() == [[6, 1, 3], [11, 15, 9]]


def test_synthetic_routes_are_all_there_and_differ_by_layer_and_seed() -> None:
    made = Workload.synthetic(MODELS["olmoe"], 100)
    assert (made.loads.sum(axis=1) == 800).all() and made.loads.shape == (16, 64)
    assert made.loads[1].tolist() == synthetic_routes(100, 64, 8, alpha=3.5, seed=1).counts(64).tolist()
    assert made.origin == "synthetic (alpha 3.5, seed 0)"
    other = Workload.synthetic(MODELS["olmoe"], 100, alpha=9.0, seed=4)
    assert other.origin == "synthetic (alpha 9, seed 4)" and (other.loads != made.loads).any()


def test_given_routes_are_counted() -> None:
    ids = np.array([[0, 4], [4, 1]])
    routes = Routes.from_topk(ids, np.ones((2, 2), np.float32))
    found = Workload.of_routes(MODEL, {1: routes, 3: routes}, "a file")
    assert (found.tokens, found.loads.tolist(), found.origin) == (2, [[1, 1, 0, 0, 2]] * 2, "a file")


def test_what_is_no_workload_is_refused() -> None:
    with pytest.raises(EStreamError, match="0 tokens"):
        Workload.synthetic(MODEL, 0)
    with pytest.raises(EStreamError, match=r"not 0\.0 and 0"):
        Workload.synthetic(MODEL, 1, alpha=0.0)
    with pytest.raises(EStreamError, match="not 3.5 and -1"):
        Workload.synthetic(MODEL, 1, seed=-1)
    routes = Routes.from_topk([[0, 6]], np.ones((1, 2), np.float32))
    with pytest.raises(EStreamError, match="2 layers of 7 experts, and made-up has 2 sparse layers of 5"):
        Workload.of_routes(MODEL, {0: routes, 1: routes}, "a file")
    with pytest.raises(EStreamError, match="1 layers of 5 experts"):
        Workload.of_routes(MODEL, {0: Routes.from_topk([[0, 1]], [[1, 1]])}, "a file")
    with pytest.raises(EStreamError, match="0 tokens"):
        Workload.of_routes(MODEL, {}, "a file")
