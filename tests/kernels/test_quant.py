"""Q4_0 is ggml's reference rule, bit for bit."""

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.kernels.quant import dequantise_q4_0, quantise_q4_0

Q4_0 = gguf.GGMLQuantizationType.Q4_0


@st.composite
def weights(draw: st.DrawFn) -> NDArray[np.float32]:
    """Blocks of every size of weight, with ties, zeros of both signs and weights far below their block's largest.

    Above 2^-100, though: far below that the oracle itself overflows (1 / d); see the test of tiny blocks.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, blocks = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    w = rng.standard_normal((rows, blocks, 32)) * 2.0 ** rng.integers(-40, 14, (rows, blocks, 1))
    w *= 2.0 ** -rng.integers(0, draw(st.integers(1, 40)), w.shape)
    if draw(st.booleans()):  # whole multiples of a step: rounding ties, and weights of equal magnitude
        step = np.abs(w).max(axis=2, keepdims=True) / rng.choice([2, 4, 8, 16])
        w = np.round(w / step) * step
    w[rng.random(w.shape) < 0.1] = rng.choice([0.0, -0.0])
    return np.clip(w, -65000, 65000).astype(np.float32).reshape(rows, blocks * 32)


def ggml_blocks(q: NDArray[np.uint8], d: NDArray[np.float16]) -> NDArray[np.uint8]:
    """q and d in ggml's 18-byte blocks: fp16 scale, then byte j with elements j (low) and j + 16 (high)."""
    rows, depth = q.shape
    halves = q.reshape(rows, depth // 32, 2, 16)
    nibbles = halves[:, :, 0] | halves[:, :, 1] << 4
    scales = d.reshape(rows, depth // 32, 1).view(np.uint8)
    return np.concatenate([scales, nibbles], axis=-1).reshape(rows, -1)


@given(weights())
def test_equals_ggml_bit_for_bit(w: NDArray[np.float32]) -> None:
    expected = gguf.quants.quantize(w, Q4_0)
    assert np.array_equal(ggml_blocks(*quantise_q4_0(w)), expected)


@given(weights())
def test_dequantises_as_ggml_does(w: NDArray[np.float32]) -> None:
    q, d = quantise_q4_0(w)
    expected = gguf.quants.dequantize(ggml_blocks(q, d), Q4_0)
    assert dequantise_q4_0(q, d).tobytes() == expected.tobytes()  # bytes: signed zeros too


def test_many_rows_are_cut_without_a_seam() -> None:
    w = np.random.default_rng(0).standard_normal((700, 64)).astype(np.float32)
    assert np.array_equal(ggml_blocks(*quantise_q4_0(w)), gguf.quants.quantize(w, Q4_0))


@given(weights())
def test_error_is_at_most_a_scale(w: NDArray[np.float32]) -> None:
    q, d = quantise_q4_0(w)
    error = np.abs(dequantise_q4_0(q, d).astype(np.float64) - w).reshape(*d.shape, 32)
    # The side opposite to the largest weight is clipped at 7 steps of 8: a whole step. fp16 rounds the scale by 2^-11,
    # or by half the smallest subnormal, eightfold in the weight.
    scale = np.abs(w.reshape(error.shape)).max(axis=-1, keepdims=True).astype(np.float64) / 8
    assert (error <= scale * (1 + 2**-7) + 8 * 2.0**-25).all()


def test_blocks_of_nothing_decode_to_nothing() -> None:
    for tiny in (0.0, 1e-39, -1e-45):
        q, d = quantise_q4_0(np.full((1, 32), tiny, np.float32))
        assert not dequantise_q4_0(q, d).any()
    assert (q == 8).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_refuses_weights_that_are_not_finite(bad: float) -> None:
    w = np.zeros((300, 64), np.float32)
    w[260, 33] = bad
    with pytest.raises(EStreamError, match=f"row 260, column 33 is {bad}"):
        quantise_q4_0(w)


@pytest.mark.parametrize(
    ("weight", "fits"), [(65504.0, True), (65519.0, True), (65520.0, False), (-65536.0, False), (1e38, False)]
)
def test_refuses_scales_that_overflow_fp16(weight: float, fits: bool) -> None:
    w = np.zeros((2, 64), np.float32)
    w[1, 40] = weight
    if fits:
        q, d = quantise_q4_0(w)
        assert np.isfinite(dequantise_q4_0(q, d).astype(np.float16)).all()
    else:
        with pytest.raises(EStreamError, match="row 1, columns 32 to 63"):
            quantise_q4_0(w)


def test_refuses_ragged_blocks() -> None:
    with pytest.raises(ValueError, match="multiple of 32"):
        quantise_q4_0(np.zeros((2, 40), np.float32))
