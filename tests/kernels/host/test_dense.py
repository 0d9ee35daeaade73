"""Dense projections equal their NumPy version bit for bit, and fp64 within the stated bound."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from estream_lab.kernels.host import LinearScratch, linear, pack_bf16, pack_dense, reference
from estream_lab.kernels.host.bf16 import narrow, widen
from estream_lab.kernels.host.dense import SIZES

F32 = NDArray[np.float32]


def normal(rng: np.random.Generator, *shape: int) -> F32:
    return rng.standard_normal(shape).astype(np.float32)


@settings(max_examples=40)
@given(st.integers(0, 9), st.integers(1, 400), st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_equals_numpy_bit_for_bit(rows: int, depth: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = normal(rng, rows, depth), normal(rng, columns, depth)
    assert linear(x, pack_dense(w)).tobytes() == reference.linear(x, w).tobytes()


def test_the_numpy_version_fuses() -> None:
    # (1 + e)(1 - e) = 1 - e²: the product alone rounds to 1, so only a fused sum with -1 keeps e².
    e = np.float32(2.0**-13)
    assert reference.fma(1 + e, 1 - e, np.float32(-1)) == np.float32(-(2.0**-26))


@settings(max_examples=300)
@given(st.lists(st.floats(-(2.0**40), 2.0**40, width=32), min_size=3, max_size=3))
def test_the_numpy_fma_rounds_once(operands: list[float]) -> None:
    x, y, z = (np.float32(v) for v in operands)
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    got = reference.fma(x, y, z)
    # The nearest float32: neither neighbour is nearer, and of two as near it is the even one.
    for end in (-np.inf, np.inf):
        neighbour = np.nextafter(got, np.float32(end))
        error, other = (abs(Fraction(float(value)) - exact) for value in (got, neighbour))
        assert error < other or (error == other and got.view(np.int32) % 2 == 0)


@given(st.integers(1, 5), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_error_stays_within_the_stated_bound(rows: int, depth: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, w = normal(rng, rows, depth), normal(rng, 33, depth)
    x64, w64 = x.astype(np.float64), w.astype(np.float64)
    error = np.abs(linear(x, pack_dense(w)) - x64 @ w64.T)
    assert (error <= depth * 2.0**-24 * (np.abs(x64) @ np.abs(w64).T)).all()


@settings(max_examples=25)
@given(st.integers(1, 450), st.data())
def test_a_row_does_not_depend_on_the_rows_around_it(rows: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(rows)
    x, w = normal(rng, rows, 160), pack_dense(normal(rng, 40, 160))
    whole = linear(x, w)
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), max_size=4)))
    parts = [linear(part, w) for part in np.split(x, cuts)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


@settings(max_examples=30)
@given(st.integers(0, 420), st.integers(1, 300), st.integers(1, 100), st.integers(0, 2**32 - 1))
def test_bf16_panels_give_the_bits_of_fp32_panels(rows: int, depth: int, columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bits = narrow(normal(rng, columns, depth) * np.float32(2.0) ** rng.integers(-126, 100, (columns, depth)))
    wide = widen(bits, np.empty(bits.shape, np.float32))
    half, whole = pack_bf16(bits), pack_dense(wide)
    x, ids = normal(rng, rows, depth), rng.integers(0, columns, 7)
    assert linear(x, half).tobytes() == linear(x, whole).tobytes()
    room = np.empty((2, 7, depth), np.float32)
    assert half.rows(ids, room[0]).tobytes() == whole.rows(ids, room[1]).tobytes() == wide[ids].tobytes()
    assert half.nbytes == half.bytes_for(columns, depth) == whole.nbytes // 2 == whole.bytes_for(columns, depth) // 2


def test_packs_any_floating_type_and_pads_with_zeros() -> None:
    w = normal(np.random.default_rng(0), 45, 7).astype(np.float16)
    packed = pack_dense(w)
    assert packed.panels.shape == (2, 7, 32)
    assert (packed.n, packed.k, packed.nbytes) == (45, 7, 2 * 7 * 32 * 4)
    assert not packed.panels[1, :, 13:].any()
    x = normal(np.random.default_rng(1), 3, 7)
    assert np.array_equal(linear(x, packed), reference.linear(x, w.astype(np.float32)))


def test_writes_where_it_is_told() -> None:
    rng = np.random.default_rng(0)
    x, w = normal(rng, 4, 32), pack_dense(normal(rng, 20, 32))
    room = np.full((6, 20), np.nan, np.float32)
    out = room[1:5]
    assert linear(x, w, out) is out
    assert np.array_equal(out, linear(x, w))
    assert np.isnan(room[[0, 5]]).all()


def test_refuses_shapes_that_do_not_fit() -> None:
    w = pack_dense(np.zeros((20, 32), np.float32))
    with pytest.raises(ValueError, match=r"x must have shape \(any, 32\), not \(4, 31\)"):
        linear(np.zeros((4, 31), np.float32), w)
    with pytest.raises(ValueError, match="out must be a writable, C-contiguous float32"):
        linear(np.zeros((4, 32), np.float32), w, np.zeros((20, 4), np.float32).T)
    with pytest.raises(ValueError, match=r"\(N, K\)"):
        pack_dense(np.zeros(4, np.float32))


def test_one_scratch_serves_many_calls() -> None:
    rng = np.random.default_rng(0)
    scratch = LinearScratch(400, 2, SIZES)
    for rows, depth, columns in ((400, 96, 70), (1, 7, 3), (193, 200, 33)):
        x, w = normal(rng, rows, depth), pack_dense(normal(rng, columns, depth))
        out = np.full((rows, columns), np.nan, np.float32)
        assert linear(x, w, out, scratch).tobytes() == linear(x, w).tobytes()
    with pytest.raises(ValueError, match="scratch memory for 400 rows, .* cannot hold 401"):
        linear(normal(rng, 401, 3), pack_dense(normal(rng, 2, 3)), scratch=scratch)
