"""The fused operator equals its NumPy version bit for bit, in both layouts, for any threads, and allocates nothing."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.runtime import _nrt_python, rtsys
from numpy.typing import NDArray

from estream_lab.kernels import host
from estream_lab.kernels.host import Scratch, expert_bank, reference
from estream_lab.kernels.layout import pack_f32, pack_q4_32x32
from estream_lab.kernels.quant import dequantise_q4_0, quantise_q4_0

F32 = NDArray[np.float32]


@dataclass
class Bank:
    """Random experts and routes, packed into an arena."""

    hidden: int
    ffn: int
    layout: str
    x: F32
    offsets: NDArray[np.int64]
    token: NDArray[np.int32]
    weight: F32
    arena: NDArray[np.uint8]
    planes: list[NDArray[np.int64]]  # gate, up, down: byte offset of each slot
    experts: list[tuple[F32, F32, F32]]  # as the kernels see them

    @classmethod
    def random(cls, seed: int, hidden: int, ffn: int, layout: str, counts: list[int], tokens: int = 17) -> "Bank":
        rng = np.random.default_rng(seed)
        pieces: list[NDArray[np.uint8]] = []
        planes = np.zeros((3, len(counts)), np.int64)
        experts = []
        at = 0
        for slot in rng.permutation(len(counts)):  # slots need not lie in order
            expert = []
            for j, shape in enumerate(((ffn, hidden), (ffn, hidden), (hidden, ffn))):
                w = (rng.standard_normal(shape) / np.sqrt(shape[1])).astype(np.float32)
                if layout == "f32":
                    piece = pack_f32(w)
                else:
                    q, d = quantise_q4_0(w)
                    piece, w = pack_q4_32x32(q, d), dequantise_q4_0(q, d)
                gap = np.full(4 * int(rng.integers(0, 9)), 0xFF, np.uint8)  # NaN, if read as weights
                pieces += [gap, piece]
                at += len(gap)
                planes[j, slot] = at
                at += len(piece)
                expert.append(w)
            experts.append((slot, expert))
        routes = sum(counts)
        return cls(
            hidden,
            ffn,
            layout,
            rng.standard_normal((tokens, hidden)).astype(np.float32),
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            rng.integers(0, tokens, routes).astype(np.int32),  # a token may come twice
            rng.standard_normal(routes).astype(np.float32),
            np.concatenate(pieces),
            list(planes),
            [tuple(e) for _, e in sorted(experts, key=lambda item: item[0])],
        )

    def run(self, scratch: Scratch | None = None, y: F32 | None = None) -> F32:
        y = np.zeros_like(self.x) if y is None else y
        scratch = scratch or Scratch(max(1, len(self.token)), self.hidden, self.ffn, host.threads())
        routes = (self.offsets, self.token, self.weight)
        expert_bank(self.x, y, *routes, self.arena, *self.planes, self.hidden, self.ffn, self.layout, scratch)
        return y


@pytest.fixture(autouse=True)
def _same_threads_afterwards() -> Iterator[None]:
    before = host.threads()
    yield
    host.set_threads(before)


LAYOUTS = st.sampled_from(["f32", "q4-32x32"])
COUNTS = st.lists(st.integers(0, 9), min_size=1, max_size=4)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.sampled_from([32, 96, 160]), st.sampled_from([32, 64, 96]), LAYOUTS, COUNTS)
def test_equals_numpy_bit_for_bit(seed: int, hidden: int, ffn: int, layout: str, counts: list[int]) -> None:
    bank = Bank.random(seed, hidden, ffn, layout, counts)
    start = np.random.default_rng(seed).standard_normal(bank.x.shape).astype(np.float32)
    expected = start.copy()
    reference.expert_bank(bank.x, expected, bank.offsets, bank.token, bank.weight, bank.experts)
    assert bank.run(y=start).tobytes() == expected.tobytes()


@pytest.mark.parametrize("layout", ["f32", "q4-32x32"])
def test_is_close_to_fp64(layout: str) -> None:
    bank = Bank.random(5, 160, 96, layout, [30, 0, 11])
    exact = np.zeros(bank.x.shape)
    for slot, weights in enumerate(bank.experts):
        gate, up, down = (w.astype(np.float64) for w in weights)
        for i in range(bank.offsets[slot], bank.offsets[slot + 1]):
            x = bank.x[bank.token[i]].astype(np.float64)
            g = gate @ x
            exact[bank.token[i]] += bank.weight[i] * (down @ (g / (1 + np.exp(-g)) * (up @ x)))
    assert np.abs(bank.run() - exact).max() <= 1e-5 * np.abs(exact).max()


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), LAYOUTS, st.lists(st.integers(0, 200), min_size=1, max_size=3))
def test_threads_change_nothing(seed: int, layout: str, counts: list[int]) -> None:
    bank = Bank.random(seed, 160, 96, layout, counts)
    host.set_threads(1)
    alone = bank.run()
    for n in range(1, host.thread_limit() + 1):
        host.set_threads(n)
        assert bank.run().tobytes() == alone.tobytes()


@pytest.mark.parametrize("layout", ["f32", "q4-32x32"])
def test_one_large_slot_equals_its_pieces(layout: str) -> None:
    """Routes beyond a tile of rows, against the same routes in several calls (R > C)."""
    whole = Bank.random(9, 96, 64, layout, [450], tokens=90)
    y = np.zeros_like(whole.x)
    for first in range(0, 450, 100):
        part = Bank(**vars(whole))
        part.token, part.weight = whole.token[first : first + 100], whole.weight[first : first + 100]
        part.offsets = np.array([0, len(part.token)])
        part.run(y=y)
    assert y.tobytes() == whole.run().tobytes()


def test_rows_without_a_route_are_neither_read_nor_written() -> None:
    bank = Bank.random(1, 64, 32, "q4-32x32", [3, 2], tokens=40)
    idle = np.setdiff1d(np.arange(40), bank.token)
    bank.x[idle] = np.nan
    y = np.zeros_like(bank.x)
    y[idle] = np.nan
    bank.run(y=y)
    assert np.isnan(y[idle]).all()
    assert np.isfinite(np.delete(y, idle, axis=0)).all()


def test_slots_without_routes_need_no_weights() -> None:
    bank = Bank.random(2, 64, 32, "f32", [3, 0, 2])
    expected = bank.run()
    for plane in bank.planes:
        plane[1] = -1
    assert np.array_equal(bank.run(), expected)
    nothing = Bank.random(2, 64, 32, "f32", [0, 0])
    assert not nothing.run().any()


def test_allocates_nothing_after_the_first_call() -> None:
    bank = Bank.random(3, 160, 96, "q4-32x32", [150, 60])
    scratch, y = Scratch(300, 160, 96, host.threads()), np.zeros_like(bank.x)
    bank.run(scratch, y)
    tracemalloc.start()
    try:
        bank.run(scratch, y)
        tracemalloc.reset_peak()
        start, _ = tracemalloc.get_traced_memory()
        bank.run(scratch, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Python's own call records and array views; the smallest temporary array, a scale row aside, has 12 KB.
    assert peak - start < 8192


def test_compiled_code_makes_no_arrays() -> None:
    """Numba counts a few bytes for each array that enters compiled code, so equal counts mean nothing beyond that."""
    host.set_threads(1)
    counts = []
    for bank in (Bank.random(0, 32, 32, "q4-32x32", [1]), Bank.random(0, 160, 96, "q4-32x32", [150, 60, 300])):
        bank.run()
        _nrt_python.memsys_enable_stats()
        before = rtsys.get_allocation_stats().alloc
        bank.run()
        counts.append(rtsys.get_allocation_stats().alloc - before)
        _nrt_python.memsys_disable_stats()
    assert counts[0] == counts[1] > 0


def test_scratch_counts_its_bytes() -> None:
    scratch = Scratch(100, 64, 96, 2)
    arrays = [a for a in vars(scratch).values() if isinstance(a, np.ndarray)]
    assert scratch.nbytes == Scratch.bytes_for(100, 64, 96, 2) == sum(a.nbytes for a in arrays)
    assert scratch.act.nbytes == 100 * 96 * 4


def test_a_larger_scratch_serves_smaller_experts() -> None:
    bank = Bank.random(4, 64, 32, "q4-32x32", [5, 6])
    assert np.array_equal(bank.run(Scratch(50, 160, 96, 1)), bank.run())


def test_refuses_what_does_not_fit() -> None:
    bank = Bank.random(6, 64, 32, "q4-32x32", [5, 6])
    with pytest.raises(ValueError, match="scratch memory for 10 routes of 64 x 32 cannot hold 11 of 64 x 32"):
        bank.run(Scratch(10, 64, 32, 1))
    with pytest.raises(ValueError, match="cannot hold"):
        bank.run(Scratch(11, 32, 64, 1))
    broken = Bank(**vars(bank))
    broken.layout = "q4-16x16"
    with pytest.raises(ValueError, match="'q4-16x16'"):
        broken.run()
    broken = Bank(**vars(bank))
    broken.arena = bank.arena[:-1]
    with pytest.raises(ValueError, match="outside the arena"):
        broken.run()
    broken = Bank(**vars(bank))
    broken.token = bank.token + np.int32(20)
    with pytest.raises(ValueError, match="names token"):
        broken.run()
    broken = Bank(**vars(bank))
    broken.offsets = bank.offsets[::-1].copy()
    with pytest.raises(ValueError, match="rise from 0 to the number of routes, 11"):
        broken.run()
    broken = Bank(**vars(bank))
    broken.planes = [plane + 2 for plane in bank.planes]
    with pytest.raises(ValueError, match="off a multiple of 4"):
        broken.run()
