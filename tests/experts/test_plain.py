"""The plain operator: worked example C, duplicates, banks exchanged, and the host kernel's results."""

import numpy as np
import pytest

from estream_lab.experts import Arena, Binding, ExpertShape, RecordClass, compact
from estream_lab.experts.graph import HostKernel
from estream_lab.experts.plain import accumulate, arena_experts
from estream_lab.kernels.layout import pack_f32, pack_q4_32x32
from estream_lab.kernels.quant import quantise_q4_0
from estream_lab.routing import Routes, synthetic_routes

ROUTES = Routes([0, 0, 1, 1, 2, 2], [4, 1, 1, 5, 4, 0], [0.6, 0.4, 0.7, 0.3, 0.5, 0.5])
X = np.array([[1], [2], [3]], np.float32)
GROUPS = {0: (0, 1), 2: (4, 5)}


def placed(banks: dict[int, int]) -> np.ndarray:
    """Φ of worked example C where group g lies in bank banks[g]."""
    placement = np.full(6, -1, np.int32)
    for group, bank in banks.items():
        placement[list(GROUPS[group])] = [2 * bank, 2 * bank + 1]
    return placement


def run(banks: dict[int, int], routes: Routes = ROUTES) -> np.ndarray:
    """Both groups in order, wherever they lie; expert e multiplies by e."""
    placement, y = placed(banks), np.zeros((3, 1), np.float32)
    for group in (0, 2):
        binding = compact(routes, placement, 2 * banks[group], 2)
        accumulate(X, y, binding, lambda slot, rows: np.float32(np.flatnonzero(placement == slot)[0]) * rows)
    return y


def test_worked_example_c() -> None:
    assert run({0: 0, 2: 1})[:, 0].tolist() == pytest.approx([2.8, 4.4, 6.0])


def test_banks_exchanged_change_no_bit() -> None:
    assert run({0: 0, 2: 1}).tobytes() == run({0: 1, 2: 0}).tobytes()


def test_an_expert_that_comes_twice_for_one_token_adds_up_twice() -> None:
    routes = Routes([0, 0, 1], [5, 5, 5], [0.25, 0.5, 1.0])
    assert run({0: 0, 2: 1}, routes)[:, 0].tolist() == [0.75 * 5, 2 * 5, 0]


def test_a_slot_without_records_is_not_visited() -> None:
    binding = compact(Routes([0], [4], [1.0]), placed({0: 0, 2: 1}), 0, 4)
    visited: list[int] = []
    accumulate(X, np.zeros_like(X), binding, lambda slot, rows: visited.append(slot) or rows)
    assert visited == [2]


@pytest.mark.parametrize("layout", ["q4-32x32", "f32"])
def test_weights_read_at_the_slots_addresses_give_the_host_kernels_results(layout: str) -> None:
    record = RecordClass.of(ExpertShape(96, 64, (layout,) * 3))
    arena, rng = Arena(2, 2, record.stride), np.random.default_rng(1)
    for slot in range(4):
        addresses = arena.addresses(np.array([slot], np.int32), record)
        for start, shape in zip(addresses, ((64, 96), (64, 96), (96, 64)), strict=True):
            w = rng.normal(0, 0.2, shape).astype(np.float32)
            packed = pack_f32(w) if layout == "f32" else pack_q4_32x32(*quantise_q4_0(w))
            arena.memory[start[0] : start[0] + len(packed)] = packed
    routes = synthetic_routes(20, 4, 2, alpha=2, seed=0)
    binding = compact(routes, np.array([2, 0, 3, 1], np.int32), 0, 4)
    x = rng.normal(0, 1, (20, 96)).astype(np.float32)
    plain, fast = np.zeros_like(x), np.zeros_like(x)
    accumulate(x, plain, binding, arena_experts(arena, record))
    HostKernel(record, len(routes))(x, fast, binding, arena, record)
    assert np.abs(plain).max() > 1
    assert np.abs(plain - fast).max() < 1e-5 * np.abs(plain).max()


def test_a_gate_of_large_magnitude_closes_without_a_warning() -> None:
    record = RecordClass.of(ExpertShape(32, 32, ("f32",) * 3))
    arena = Arena(1, 1, record.stride)
    weights = np.concatenate([pack_f32(np.eye(32, dtype=np.float32))] * 3)
    arena.memory[: len(weights)] = weights
    rows = np.array([[-1000.0, 1000.0, *[0.0] * 30]], np.float32)
    made = arena_experts(arena, record)(0, rows)
    assert made[0, :3].tolist() == [0, 1e6, 0]


def test_records_of_one_slot_keep_route_order() -> None:
    binding = Binding(
        np.array([0, 3]), np.array([2, 0, 2], np.int32), np.arange(3, dtype=np.int32),
        np.array([1, 2, 4], np.float32), np.array([0], np.int32),
    )  # fmt: skip
    y = np.zeros((3, 1), np.float32)
    accumulate(X, y, binding, lambda slot, rows: rows)
    assert y[:, 0].tolist() == [2, 0, 15]
