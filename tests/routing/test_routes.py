"""Routes are checked, read-only and comparable."""

import numpy as np
import pytest

from estream_lab.routing import Routes


def test_topk_results_become_token_major_routes() -> None:
    routes = Routes.from_topk([[4, 1], [1, 1]], [[0.6, 0.4], [0.5, 0.25]])  # one token may visit an expert twice
    assert routes.token.tolist() == [0, 0, 1, 1]
    assert routes.expert.tolist() == [4, 1, 1, 1]
    assert routes.weight.tolist() == [np.float32(0.6), np.float32(0.4), 0.5, 0.25]
    assert (routes.token.dtype, routes.expert.dtype, routes.weight.dtype) == (np.int32, np.int32, np.float32)
    assert len(routes) == 4
    assert routes.counts(6).tolist() == [0, 3, 0, 0, 1, 0]


def test_arrays_are_read_only_copies() -> None:
    token = np.array([0, 1], np.int32)
    routes = Routes(token, token, np.ones(2, np.float32))
    token[0] = 7
    assert routes.token.tolist() == [0, 1]
    for array in (routes.token, routes.expert, routes.weight):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    with pytest.raises(AttributeError):
        routes.token = token  # type: ignore[misc]


def test_equality_is_bitwise() -> None:
    a = Routes([0], [1], [0.5])
    assert a == Routes([0], [1], [0.5])
    assert a != Routes([0], [2], [0.5])
    assert a != Routes([0], [1], [np.nextafter(np.float32(0.5), np.float32(1))])
    assert Routes([0], [1], [0.0]) != Routes([0], [1], [-0.0])
    assert a != "routes"


def test_no_routes_are_routes() -> None:
    assert len(Routes([], [], [])) == 0
    assert Routes([], [], []).counts(3).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("token", "expert", "weight", "message"),
    [
        ([0], [1, 2], [0.5, 0.5], "not 1, 2 and 2"),
        ([1, 0], [0, 0], [1, 1], "token-major"),
        ([-1, 0], [0, 0], [1, 1], "token-major"),
        ([0], [-1], [1], "expert -1"),
        ([0], [0], [np.nan], "not finite"),
        ([0], [0], [1e39], "not finite"),
        ([0.5], [0], [1], "token of routes must be whole numbers"),
        ([0], [2**31], [1], "fit 32 bits"),
        ([[0]], [0], [1], "one-dimensional"),
    ],
)
def test_refuses_what_are_no_routes(token: list[int], expert: list[int], weight: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Routes(token, expert, weight)


def test_refuses_unequal_topk_shapes_and_experts_beyond_the_model() -> None:
    with pytest.raises(ValueError, match=r"\(T, k\)"):
        Routes.from_topk([[0, 1]], [[1.0]])
    with pytest.raises(ValueError, match="expert 5 of 5"):
        Routes([0], [5], [1.0]).counts(5)


def test_routes_over_arrays_are_these_arrays_read_only() -> None:
    token, expert, weight = np.array([0, 0], np.int32), np.array([3, 1], np.int32), np.array([0.5, 0.25], np.float32)
    routes = Routes.over(token, expert, weight)
    assert routes == Routes(token, expert, weight)
    assert all(np.shares_memory(a, b) for a, b in ((routes.token, token), (routes.weight, weight)))
    with pytest.raises(ValueError, match="read-only"):
        routes.expert[0] = 7
    expert[0] = 7  # the owner may
    assert routes.expert.tolist() == [7, 1]
