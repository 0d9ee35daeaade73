"""Slot compaction against a dictionary of lists, and worked example C."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.experts import Binder, Binding, compact, group_routes
from estream_lab.routing import Routes


def make_routes(pairs: list[tuple[int, int]], weights: list[float] | None = None) -> Routes:
    token = np.array([t for t, _ in pairs], np.int32)
    expert = np.array([e for _, e in pairs], np.int32)
    alpha = np.linspace(0.1, 0.9, len(pairs)) if weights is None else np.array(weights)
    return Routes(token, expert, alpha.astype(np.float32))


EXAMPLE_C = make_routes([(0, 4), (0, 1), (1, 1), (1, 5), (2, 4), (2, 0)], [0.6, 0.4, 0.7, 0.3, 0.5, 0.5])
PLACEMENT_C = np.array([0, 1, -1, -1, 2, 3], np.int32)  # group 1 is skipped, bank 1 holds group 2


def test_worked_example_c() -> None:
    binding = compact(EXAMPLE_C, PLACEMENT_C, 0, 4)
    assert binding.offsets.tolist() == [0, 1, 3, 5, 6]
    assert list(zip(binding.token.tolist(), binding.route.tolist(), strict=True)) == [
        (2, 5), (0, 1), (1, 2), (0, 0), (2, 4), (1, 3),
    ]  # fmt: skip
    assert binding.weight.tolist() == [EXAMPLE_C.weight[i] for i in binding.route]
    grouped = group_routes(EXAMPLE_C, np.array([0, 0, 1, 1, 2, 2], np.int32), 3)
    assert grouped.needed == [0, 2]
    assert grouped.of(0).tolist() == [1, 2, 5] and grouped.of(1).tolist() == [] and grouped.of(2).tolist() == [0, 3, 4]


def test_one_bank_of_example_c_through_its_group() -> None:
    whole = compact(EXAMPLE_C, PLACEMENT_C, 2, 2)
    ids = group_routes(EXAMPLE_C, np.array([0, 0, 1, 1, 2, 2], np.int32), 3).of(2)
    part = compact(EXAMPLE_C, PLACEMENT_C, 2, 2, ids)
    assert part.slot.tolist() == [2, 3]
    for field in ("offsets", "token", "route", "weight", "slot"):
        assert np.array_equal(getattr(whole, field), getattr(part, field)), field


@st.composite
def bound_routes(draw: st.DrawFn) -> tuple[Routes, np.ndarray, int, int]:
    """Routes with duplicates, a placement with absent experts, and a bank of its slots."""
    experts, tokens = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    pair = st.tuples(st.integers(0, tokens - 1), st.integers(0, experts - 1))
    pairs = sorted(draw(st.lists(pair, max_size=40)), key=lambda p: p[0])  # token-major, duplicates allowed
    slots = draw(st.integers(experts, experts + 4))
    places = draw(st.permutations(range(slots)))[:experts]
    absent = draw(st.lists(st.booleans(), min_size=experts, max_size=experts))
    placement = np.array([-1 if gone else place for gone, place in zip(absent, places, strict=True)], np.int32)
    first = draw(st.integers(0, slots - 1))
    return make_routes(pairs), placement, first, draw(st.integers(1, slots - first))


@given(bound_routes())
def test_equals_a_dictionary_of_lists(case: tuple[Routes, np.ndarray, int, int]) -> None:
    routes, placement, first, slots = case
    expected: dict[int, list[tuple[int, int, float]]] = {}
    for i in range(len(routes)):
        slot = int(placement[routes.expert[i]])
        if first <= slot < first + slots:
            expected.setdefault(slot, []).append((int(routes.token[i]), i, float(routes.weight[i])))
    binding = compact(routes, placement, first, slots)
    assert binding.offsets[0] == 0 and len(binding.offsets) == slots + 1
    for local in range(slots):
        rows = slice(binding.offsets[local], binding.offsets[local + 1])
        found = zip(
            binding.token[rows].tolist(), binding.route[rows].tolist(), binding.weight[rows].tolist(), strict=True
        )
        assert list(found) == expected.get(first + local, [])
    assert len(binding) == sum(map(len, expected.values()))


@given(bound_routes(), st.integers(1, 12))
def test_split_covers_every_record_once_in_order(case: tuple[Routes, np.ndarray, int, int], capacity: int) -> None:
    binding = compact(*case)
    parts = binding.split(capacity)
    assert len(parts) == max(1, -(-len(binding) // capacity))
    assert all(len(part) <= capacity and part.offsets[-1] == len(part) for part in parts)
    for field in ("token", "route", "weight"):
        joined = np.concatenate([getattr(part, field) for part in parts])
        assert np.array_equal(joined, getattr(binding, field))
    assert np.array_equal(sum(np.diff(part.offsets) for part in parts), np.diff(binding.offsets))


def _slot_of_records(binding: Binding) -> list[int]:
    return np.repeat(binding.slot, np.diff(binding.offsets)).tolist()


def test_one_expert_takes_all_and_capacities_at_the_border() -> None:
    routes = make_routes([(t, 3) for t in range(7)])
    placement = np.full(5, -1, np.int32)
    placement[3] = 1
    binding = compact(routes, placement, 0, 3)
    assert binding.offsets.tolist() == [0, 0, 7, 7]
    assert [len(p) for p in binding.split(7)] == [7]  # R = C
    assert [len(p) for p in binding.split(6)] == [6, 1]  # R = C + 1
    assert _slot_of_records(binding.split(6)[1]) == [1]


def test_a_route_to_an_expert_that_the_layer_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="names expert 6 of a layer of 6"):
        group_routes(make_routes([(0, 1), (0, 6)]), np.zeros(6, np.int32), 1)


def test_no_routes_at_all() -> None:
    empty = make_routes([])
    binding = compact(empty, np.array([0, 1], np.int32), 0, 2)
    assert len(binding) == 0 and binding.offsets.tolist() == [0, 0, 0]
    assert group_routes(empty, np.array([0, 0], np.int32), 1).needed == []


def same(found: object, expected: object) -> bool:
    return all(np.array_equal(value, getattr(expected, name)) for name, value in vars(found).items())


@given(st.lists(bound_routes(), min_size=1, max_size=4), st.integers(1, 5))
def test_a_binder_serves_one_layer_after_the_other(
    cases: list[tuple[Routes, np.ndarray, int, int]], groups: int
) -> None:
    """Records of an earlier and larger layer don't show in a later one's."""
    binder = Binder(40, 5, 16)
    for routes, placement, first, slots in cases:
        group_of = (np.arange(len(placement)) % groups).astype(np.int32)
        grouped = binder.group(routes, group_of, groups)
        assert same(grouped, group_routes(routes, group_of, groups))
        assert same(binder.bind(routes, placement, first, slots), compact(routes, placement, first, slots))
        for group in range(groups):  # a bank of one group: its routes only, and the grouping outlives each binding
            ids = grouped.of(group)
            found = binder.bind(routes, placement, first, slots, ids)
            assert same(found, compact(routes, placement, first, slots, ids))


def test_a_binder_refuses_what_it_has_no_room_for() -> None:
    binder = Binder(5, 1, 2)
    with pytest.raises(ValueError, match="5 routes of 1 groups can't take 6 of 1"):
        binder.group(EXAMPLE_C, np.zeros(6, np.int32), 1)
    with pytest.raises(ValueError, match="5 routes of 1 groups can't take 0 of 3"):
        binder.group(make_routes([]), np.zeros(6, np.int32), 3)
    with pytest.raises(ValueError, match="5 routes in 2 slots can't take 6 in 2"):
        binder.bind(EXAMPLE_C, PLACEMENT_C, 0, 2)
    with pytest.raises(ValueError, match="5 routes in 2 slots can't take 0 in 4"):
        binder.bind(make_routes([]), PLACEMENT_C, 0, 4)
    with pytest.raises(ValueError, match="5 routes in 2 slots can't take 6 in 1"):
        binder.bind(EXAMPLE_C, PLACEMENT_C, 0, 1, np.arange(6, dtype=np.int32))


@pytest.mark.parametrize("room", [(0, 0, 0), (7, 3, 2), (4096, 64, 8)])
def test_a_binder_knows_its_bytes_before_it_is_made(room: tuple[int, int, int]) -> None:
    assert Binder(*room).nbytes == Binder.bytes_for(*room)
