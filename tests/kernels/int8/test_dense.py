"""Projections with int8 activations equal NumPy bit for bit for any shape, threads and cut, and allocate nothing."""

import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.kernels import host
from estream_lab.kernels.host import LinearScratch
from estream_lab.kernels.int8 import Q4Strips, Q8Strips, pack_q4, pack_q8, reference
from estream_lab.kernels.int8.q8 import dequantise_q8_0, quantise_q8_0, unpack_q8_32x32
from estream_lab.kernels.int8.scratch import linear_sizes
from estream_lab.kernels.layout import unpack_q4_32x32
from estream_lab.kernels.packed.scratch import ROW_BLOCK
from estream_lab.kernels.quant import dequantise_q4_0, quantise_q4_0

F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Format:
    """One kind of weights: the operator and its plain version."""

    pack: Callable[[F32], Any]
    quantise: Callable[[F32], Any]
    dequantise: Callable[..., F32]
    reference: Callable[..., F32]

    def expected(self, x: F32, w: F32) -> F32:
        return self.reference(*reference.quantise(x), self.quantise(w))


FORMATS = {
    "q4": Format(pack_q4, quantise_q4_0, dequantise_q4_0, reference.linear),
    "q8": Format(pack_q8, quantise_q8_0, dequantise_q8_0, reference.linear_q8),
}
every_format = pytest.mark.parametrize("kind", FORMATS.values(), ids=FORMATS.keys())
ROWS = st.one_of(st.integers(0, 12), st.integers(13, 2 * ROW_BLOCK + 20))


@pytest.fixture(autouse=True)
def _same_threads_afterwards() -> Iterator[None]:
    before = host.threads()
    yield
    host.set_threads(before)


def problem(seed: int, rows: int, depth: int, columns: int) -> tuple[F32, F32]:
    rng = np.random.default_rng(seed)
    w = rng.standard_normal((columns, depth)) / np.sqrt(depth)
    return rng.standard_normal((rows, depth)).astype(np.float32), w.astype(np.float32)


@every_format
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1), rows=ROWS, blocks=st.integers(1, 11), columns=st.integers(1, 140))
def test_equals_numpy_bit_for_bit(kind: Format, seed: int, rows: int, blocks: int, columns: int) -> None:
    x, w = problem(seed, rows, 32 * blocks, columns)
    assert kind.pack(w).linear(x).tobytes() == kind.expected(x, w).tobytes()


@every_format
@settings(max_examples=15)
@given(rows=st.integers(1, 450), cuts=st.lists(st.integers(0, 450), max_size=4), threads=st.integers(1, 64))
def test_neither_threads_nor_cuts_change_a_row(kind: Format, rows: int, cuts: list[int], threads: int) -> None:
    x, w = problem(rows, rows, 160, 170)
    packed = kind.pack(w)
    host.set_threads(1)
    whole = packed.linear(x)
    host.set_threads(min(threads, host.thread_limit()))
    parts = [packed.linear(part) for part in np.split(x, sorted(min(cut, rows) for cut in cuts))]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


@every_format
@pytest.mark.parametrize("activations", ["gaussian", "lognormal", "outliers"])
def test_is_close_to_fp64_on_the_same_weights(kind: Format, activations: str) -> None:
    rng = np.random.default_rng(8)
    x, w = problem(5, 40, 1024, 96)
    if activations == "lognormal":
        x *= np.exp(0.5 * rng.standard_normal(1024)).astype(np.float32)
    elif activations == "outliers":
        x[:, 7::128] *= 30
    exact = x.astype(np.float64) @ kind.dequantise(*kind.quantise(w)).astype(np.float64).T
    assert np.linalg.norm(kind.pack(w).linear(x) - exact) <= 0.02 * np.linalg.norm(exact)


def test_packs_any_floating_type_and_pads_with_zeros() -> None:
    _, w = problem(0, 1, 96, 45)
    half = w.astype(np.float16)
    four, eight = pack_q4(half), pack_q8(half)
    assert (four.n, four.k, four.nbytes) == (45, 96, 2 * 3 * 576) and four.blocks.shape == (2, 3, 576)
    assert all(packed.blocks.ctypes.data % 64 == 0 for packed in (four, eight))
    assert (eight.n, eight.k, eight.nbytes) == (45, 96, 2 * 3 * 1088) and eight.blocks.shape == (2, 3, 1088)
    assert (four.nbytes, eight.nbytes) == (Q4Strips.bytes_for(45, 96), Q8Strips.bytes_for(45, 96))
    pad = np.zeros(576, np.uint8)  # an odd number of blocks ends with one of padding in q4-32x32
    q4 = unpack_q4_32x32(np.concatenate([four.blocks.reshape(-1), pad]), 64, 96)
    for held, q, zero in ((q4, quantise_q4_0, 8), (unpack_q8_32x32(eight.blocks), quantise_q8_0, 0)):
        weights, d = q(half.astype(np.float32))
        assert np.array_equal(held[0][:45], weights) and np.array_equal(held[1][:45], d)
        assert (held[0][45:] == zero).all() and not held[1][45:].any()


@every_format
def test_writes_where_it_is_told(kind: Format) -> None:
    x, w = problem(0, 4, 64, 45)
    room = np.full((6, 45), np.nan, np.float32)
    out = room[1:5]
    assert kind.pack(w).linear(x, out) is out
    assert np.array_equal(out, kind.expected(x, w))
    assert np.isnan(room[[0, 5]]).all()


@every_format
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_spoils_itself_alone(kind: Format, wrong: float) -> None:
    x, w = problem(0, 60, 64, 45)
    clean = kind.pack(w).linear(x)
    x[41, 40] = wrong
    got = kind.pack(w).linear(x)
    assert np.isnan(got[41]).all()
    assert np.delete(got, 41, axis=0).tobytes() == np.delete(clean, 41, axis=0).tobytes()


@every_format
def test_one_scratch_serves_many_calls(kind: Format) -> None:
    scratch = LinearScratch(400, 2, linear_sizes(288))
    for rows, depth, columns in ((400, 96, 70), (1, 288, 3), (193, 32, 33)):
        x, w = problem(rows, rows, depth, columns)
        out = np.full((rows, columns), np.nan, np.float32)
        assert kind.pack(w).linear(x, out, scratch).tobytes() == kind.expected(x, w).tobytes()


@every_format
@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), blocks=st.integers(1, 5), columns=st.integers(1, 70), data=st.data())
def test_rows_are_the_dequantised_weights(
    kind: Format, seed: int, blocks: int, columns: int, data: st.DataObject
) -> None:
    _, w = problem(seed, 1, 32 * blocks, columns)
    ids = np.array(data.draw(st.lists(st.integers(0, columns - 1), max_size=9)), np.int32)
    out = np.full((len(ids), 32 * blocks), np.nan, np.float32)
    assert kind.pack(w).rows(ids, out) is out
    assert out.tobytes() == kind.dequantise(*kind.quantise(w))[ids].tobytes()


@every_format
def test_allocates_nothing_with_out_and_scratch(kind: Format) -> None:
    """Python's own call records and array views are there for a small product too; a tile alone has 24 KB."""
    host.set_threads(1)
    most = []
    for sizes in ((1, 32, 1), (300, 288, 140)):
        x, w = problem(0, *sizes)
        packed, out = kind.pack(w), np.empty((sizes[0], sizes[2]), np.float32)
        scratch = LinearScratch(300, 1, linear_sizes(288))
        packed.linear(x, out, scratch)
        tracemalloc.start()
        try:
            packed.linear(x, out, scratch)
            tracemalloc.reset_peak()
            start, _ = tracemalloc.get_traced_memory()
            packed.linear(x, out, scratch)
            most.append(tracemalloc.get_traced_memory()[1] - start)
        finally:
            tracemalloc.stop()
    assert most[0] <= 8192 and most[1] <= most[0] + 4096


@every_format
def test_refuses_what_does_not_fit(kind: Format) -> None:
    x, w = problem(0, 4, 64, 20)
    packed = kind.pack(w)
    with pytest.raises(ValueError, match=r"x must have shape \(any, 64\), not \(4, 32\)"):
        packed.linear(x[:, :32])
    with pytest.raises(ValueError, match="out must be a writable, C-contiguous float32"):
        packed.linear(x, np.zeros((20, 4), np.float32).T)
    with pytest.raises(ValueError, match="scratch memory for 3 rows, .* cannot hold 4, "):
        packed.linear(x, scratch=LinearScratch(3, 1, linear_sizes(64)))
    with pytest.raises(ValueError, match=r"row=40, .* cannot hold 4, LinearSizes\(row=80, "):
        packed.linear(x, scratch=LinearScratch(4, 1, linear_sizes(32)))
    with pytest.raises(ValueError, match=r"blocks must have shape \(1, 2, "):
        replace(packed, blocks=packed.blocks[:, :1]).linear(x)
    for shape in ((4,), (4, 33), (0, 32), (4, 0)):
        with pytest.raises(ValueError, match="K a multiple of 32"):
            kind.pack(np.zeros(shape, np.float32))
    w[3, 5] = np.nan
    with pytest.raises(EStreamError, match="finite weights"):
        kind.pack(w)


def test_refuses_weights_of_the_other_kind() -> None:
    x, w = problem(0, 4, 64, 20)
    four, eight = pack_q4(w), pack_q8(w)
    with pytest.raises(ValueError, match=r"blocks must have shape \(1, 2, 576\), not \(1, 2, 1088\)"):
        replace(four, blocks=eight.blocks).linear(x)
    with pytest.raises(ValueError, match=r"blocks must have shape \(1, 2, 1088\), not \(1, 2, 576\)"):
        replace(eight, blocks=four.blocks).linear(x)
