"""In every lane the operator equals its NumPy version bit for bit for any shape and threads, and allocates nothing."""

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba.core.runtime import _nrt_python, rtsys
from numpy.typing import NDArray

from estream_lab.kernels import host
from estream_lab.kernels.packed.scratch import ROW_BLOCK
from estream_lab.kernels.quant import dequantise_q4_0
from tests.kernels.packed.banks import BANKS, Bank, Bf16Bank, Int8Bank

F32 = NDArray[np.float32]
COUNTS = st.lists(st.one_of(st.integers(0, 12), st.integers(1, 200)), min_size=1, max_size=3)
SIZES = st.sampled_from([32, 64, 96, 288])
LANES = pytest.mark.parametrize("lane", BANKS.values(), ids=BANKS)


@pytest.fixture(autouse=True)
def _same_threads_afterwards() -> Iterator[None]:
    before = host.threads()
    yield
    host.set_threads(before)


@LANES
@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), SIZES, SIZES, COUNTS)
def test_equals_numpy_bit_for_bit(lane: type[Bank], seed: int, hidden: int, ffn: int, counts: list[int]) -> None:
    bank = lane.random(seed, hidden, ffn, counts)
    start = np.random.default_rng(seed).standard_normal(bank.x.shape).astype(np.float32)
    expected = bank.expected(start.copy())
    assert bank.run(y=start).tobytes() == expected.tobytes()


@LANES
@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), COUNTS)
def test_threads_change_nothing(lane: type[Bank], seed: int, counts: list[int]) -> None:
    bank = lane.random(seed, 32 * (lane.room.Scratch.TILES + 2), 96, counts)
    host.set_threads(1)
    alone = bank.run()
    for n in range(1, host.thread_limit() + 1):
        host.set_threads(n)
        assert bank.run().tobytes() == alone.tobytes()


@LANES
def test_one_large_slot_equals_its_pieces(lane: type[Bank]) -> None:
    """Routes beyond a tile of rows, against the same routes in several calls (R > C)."""
    rows = 2 * ROW_BLOCK + 66
    whole = lane.random(9, 96, 64, [rows], tokens=90)
    y = np.zeros_like(whole.x)
    for first in range(0, rows, 100):
        part = lane(**vars(whole))
        part.token, part.weight = whole.token[first : first + 100], whole.weight[first : first + 100]
        part.offsets = np.array([0, len(part.token)])
        part.run(y=y)
    assert y.tobytes() == whole.run().tobytes()


ERRORS = {Int8Bank: (1e-3, 0.02), Bf16Bank: (1e-4, 0.004)}
"""Relative ones in the norm that each lane has, at least and at most."""


def activations(kind: str, tokens: int, hidden: int) -> F32:
    rng = np.random.default_rng(8)
    x = rng.standard_normal((tokens, hidden))
    if kind == "lognormal":
        x *= np.exp(0.5 * rng.standard_normal(hidden))
    elif kind == "outliers":
        x[:, 7::128] *= 30
    return x.astype(np.float32)


@LANES
@pytest.mark.parametrize("kind", ["gaussian", "lognormal", "outliers"])
def test_is_close_to_fp64_on_the_same_weights(lane: type[Bank], kind: str) -> None:
    least, most = ERRORS[lane]
    bank = lane.random(5, 512, 256, [30, 0, 11, 1])
    bank.x = activations(kind, len(bank.x), bank.hidden)
    exact = np.zeros(bank.x.shape)
    for slot, weights in enumerate(bank.experts):
        gate, up, down = (dequantise_q4_0(*w).astype(np.float64) for w in weights)
        for i in range(bank.offsets[slot], bank.offsets[slot + 1]):
            x = bank.x[bank.token[i]].astype(np.float64)
            g = gate @ x
            exact[bank.token[i]] += bank.weight[i] * (down @ (g / (1 + np.exp(-g)) * (up @ x)))
    assert least < np.linalg.norm(bank.run() - exact) / np.linalg.norm(exact) <= most


@LANES
def test_rows_without_a_route_are_neither_read_nor_written(lane: type[Bank]) -> None:
    bank = lane.random(1, 64, 32, [3, 2], tokens=40)
    idle = np.setdiff1d(np.arange(40), bank.token)
    bank.x[idle] = np.nan
    y = np.zeros_like(bank.x)
    y[idle] = np.nan
    bank.run(y=y)
    assert np.isnan(y[idle]).all()
    assert np.isfinite(np.delete(y, idle, axis=0)).all()


@pytest.mark.parametrize(
    ("lane", "wrong"),
    [*((lane, wrong) for lane in BANKS for wrong in (np.nan, np.inf, -np.inf)), ("bf16", 3.4e38)],  # infinite in bf16
)
def test_a_token_that_is_not_finite_spoils_its_own_results_and_all_of_them(lane: str, wrong: float) -> None:
    bank = BANKS[lane].random(1, 64, 32, [50, 20])
    clean = bank.run()
    bank.x[3, 40] = wrong
    y = bank.run()
    assert np.isnan(y[3]).all() if lane == "int8" else not np.isfinite(y[3]).any()
    assert np.delete(y, 3, axis=0).tobytes() == np.delete(clean, 3, axis=0).tobytes()


@LANES
@pytest.mark.parametrize("size", [2.0**-126, 2.0**-119, 2.0**-60, 2.0**40])
def test_tokens_of_any_size_equal_numpy(lane: type[Bank], size: float) -> None:
    """Sums never are subnormal, which one variant would take for zero; what is too small is zero for all of them."""
    bank = lane.random(3, 96, 64, [19, 60])
    bank.x *= np.float32(size)
    assert bank.run().tobytes() == bank.expected().tobytes()


@LANES
def test_slots_without_routes_need_no_weights(lane: type[Bank]) -> None:
    bank = lane.random(2, 64, 32, [3, 0, 2])
    expected = bank.run()
    for plane in bank.planes:
        plane[1] = -1
    assert np.array_equal(bank.run(), expected)
    assert not lane.random(2, 64, 32, [0, 0]).run().any()


def allocated(bank: Bank, scratch: object) -> int:
    """Bytes that a call has at its most beyond what was there, where the first calls are over."""
    y = np.zeros_like(bank.x)
    bank.run(scratch, y)
    tracemalloc.start()
    try:
        bank.run(scratch, y)
        tracemalloc.reset_peak()
        start, _ = tracemalloc.get_traced_memory()
        bank.run(scratch, y)
        return tracemalloc.get_traced_memory()[1] - start
    finally:
        tracemalloc.stop()


@LANES
def test_allocates_nothing_after_the_first_call(lane: type[Bank]) -> None:
    """Python's own call records and array views are there for a small bank too; any temporary has 9 KB or more."""
    host.set_threads(1)
    room = lane.room.Scratch(300, 160, 96, host.threads())
    small, large = lane.random(3, 32, 32, [1]), lane.random(3, 160, 96, [150, 60])
    assert allocated(small, room) <= 8192
    assert allocated(large, room) <= allocated(small, room) + 4096


@LANES
def test_compiled_code_makes_no_arrays(lane: type[Bank]) -> None:
    """Numba counts a few bytes for each array that enters compiled code, so equal counts mean nothing beyond that."""
    host.set_threads(1)
    counts = []
    for bank in (lane.random(0, 32, 32, [1]), lane.random(0, 160, 96, [150, 60, 300])):
        bank.run()
        _nrt_python.memsys_enable_stats()
        before = rtsys.get_allocation_stats().alloc
        bank.run()
        counts.append(rtsys.get_allocation_stats().alloc - before)
        _nrt_python.memsys_disable_stats()
    assert counts[0] == counts[1] > 0


@LANES
def test_scratch_counts_its_bytes(lane: type[Bank]) -> None:
    scratch = lane.room.Scratch(100, 64, 96, 2)
    arrays = [a for a in vars(scratch).values() if isinstance(a, np.ndarray)]
    assert scratch.nbytes == lane.room.Scratch.bytes_for(100, 64, 96, 2) == sum(a.nbytes for a in arrays)
    assert scratch.act.nbytes == 100 * 96 // 32 * scratch.RECORD_BYTES
    assert all(a.ctypes.data % 64 == 0 for a in arrays)
    with pytest.raises(ValueError, match="at least one row"):
        lane.room.Scratch(0, 64, 96, 2)


@LANES
def test_a_larger_scratch_serves_smaller_experts(lane: type[Bank]) -> None:
    bank = lane.random(4, 64, 32, [5, 6])
    assert np.array_equal(bank.run(lane.room.Scratch(50, 160, 96, 1)), bank.run())


def changed(bank: Bank, **fields: object) -> Bank:
    return type(bank)(**{**vars(bank), **fields})


@LANES
def test_refuses_what_does_not_fit(lane: type[Bank]) -> None:
    bank = lane.random(6, 64, 32, [5, 6])
    with pytest.raises(ValueError, match="scratch memory for 10 routes of 64 x 32 cannot hold 11 of 64 x 32"):
        bank.run(lane.room.Scratch(10, 64, 32, 1))
    with pytest.raises(ValueError, match="cannot hold"):
        bank.run(lane.room.Scratch(11, 32, 64, 1))
    with pytest.raises(ValueError, match="outside the arena"):
        changed(bank, arena=bank.arena[:-1]).run()
    with pytest.raises(ValueError, match="outside the arena"):
        changed(bank, planes=[plane - 1000 for plane in bank.planes]).run()
    with pytest.raises(ValueError, match="flat, contiguous"):
        changed(bank, arena=bank.arena[2:]).run()
    with pytest.raises(ValueError, match="names token"):
        changed(bank, token=bank.token + np.int32(20)).run()
    with pytest.raises(ValueError, match="rise from 0 to the number of routes, 11"):
        changed(bank, offsets=bank.offsets[::-1].copy()).run()
    with pytest.raises(ValueError, match="off a multiple of 4"):
        changed(bank, planes=[plane + 2 for plane in bank.planes]).run()
    with pytest.raises(ValueError, match=r"x must have shape \(any, 64\)"):
        changed(bank, x=bank.x[:, :32]).run(y=bank.x.copy())
