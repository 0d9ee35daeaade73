"""Attention equals its NumPy version bit for bit, fp64 closely, and itself however a prompt is cut into chunks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from estream_lab.kernels.host import AttentionScratch, attention, reference

F32 = NDArray[np.float32]


def case(seed: int, tokens: int, heads: int, kv_heads: int, width: int, capacity: int) -> tuple[F32, F32, F32]:
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((tokens, heads, width)).astype(np.float32)
    k, v = rng.standard_normal((2, capacity, kv_heads, width)).astype(np.float32)
    return q, k, v


def attend(q: F32, k: F32, v: F32, start: int, scale: float) -> F32:
    """The kernel on a cache of these keys and values, (positions, Hkv, D)."""
    return attention(q, *reference.strips(k, v), start, scale)


def exact(q: F32, k: F32, v: F32, start: int, scale: float) -> NDArray[np.float64]:
    tokens, heads, width = q.shape
    group = heads // k.shape[1]
    out = np.empty((tokens, heads, width))
    for h in range(heads):
        scores = q[:, h].astype(np.float64) @ k[:, h // group].T * scale
        scores[np.arange(len(k)) > start + np.arange(tokens)[:, None]] = -np.inf
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[:, h] = p @ v[:, h // group] / p.sum(axis=1, keepdims=True)
    return out.reshape(tokens, heads * width)


SHAPES = st.tuples(
    st.integers(1, 40),  # tokens
    st.sampled_from([(1, 1), (2, 1), (4, 2), (3, 3)]),
    st.sampled_from([2, 32, 48]),  # head size: below, at and off a strip
    st.integers(0, 100),  # start
    st.integers(0, 9),  # room behind the last token
)


@settings(max_examples=15)
@given(SHAPES, st.integers(0, 2**32 - 1))
def test_equals_numpy_bit_for_bit_and_fp64_closely(
    shape: tuple[int, tuple[int, int], int, int, int], seed: int
) -> None:
    tokens, (heads, kv_heads), width, start, room = shape
    q, k, v = case(seed, tokens, heads, kv_heads, width, start + tokens + room)
    got = attend(q, k, v, start, width**-0.5)
    assert got.tobytes() == reference.attention(q, k, v, start, width**-0.5).tobytes()
    assert np.abs(got - exact(q, k, v, start, width**-0.5)).max() <= 2e-5


@settings(max_examples=40)
@given(st.integers(1, 260), st.integers(0, 100), st.sampled_from([8, 40]), st.data())
def test_a_prompt_may_be_cut_anywhere(tokens: int, start: int, width: int, data: st.DataObject) -> None:
    q, k, v = case(tokens, tokens, 2, 1, width, start + tokens)
    whole = attend(q, k, v, start, 0.3)
    cuts = sorted(data.draw(st.lists(st.integers(0, tokens), max_size=5)))
    parts, done = [], 0
    for part in np.split(q, cuts):
        parts.append(attend(part, k, v, start + done, 0.3))
        done += len(part)
    assert np.concatenate(parts).tobytes() == whole.tobytes()


@given(st.integers(1, 130), st.integers(0, 70), st.sampled_from([np.nan, np.inf, 3e38]))
def test_later_positions_do_not_exist(tokens: int, start: int, poison: float) -> None:
    q, k, v = case(7, tokens, 2, 2, 8, start + tokens)
    clean = attend(q, k, v, start, 0.3)
    for first in {1, tokens // 2 + 1, tokens}:
        k2, v2 = k.copy(), v.copy()
        k2[start + first :] = poison
        v2[start + first :] = poison
        assert attend(q[:first], k2, v2, start, 0.3).tobytes() == clean[:first].tobytes()
        # Nor for the rows before them of a chunk whose later rows do see them.
        assert attend(q, k2, v2, start, 0.3)[:first].tobytes() == clean[:first].tobytes()


def test_what_is_no_number_shows_in_every_row_that_sees_it() -> None:
    q, k, v = case(11, 200, 2, 2, 16, 200)
    k[70, 1, 3] = np.nan
    got = np.isnan(attend(q, k, v, 0, 0.3)).reshape(200, 2, 16)
    assert not got[:, 0].any() and not got[:70, 1].any() and got[70:, 1].all()


def test_large_scores_do_not_overflow() -> None:
    q, k, v = case(3, 70, 1, 1, 32, 70)
    got = attend(1000 * q, k, v, 0, 1.0)
    assert np.isfinite(got).all()
    assert np.abs(got - exact(1000 * q, k, v, 0, 1.0)).max() <= 2e-2  # scores of 1e4 are exact to 1e-3 only


def test_one_visible_key_gives_its_value() -> None:
    q, k, v = case(0, 1, 2, 2, 16, 1)
    assert np.array_equal(attend(q, k, v, 0, 0.25), v.reshape(1, 32))


def test_refuses_what_does_not_fit() -> None:
    q, k, v = case(0, 5, 4, 2, 8, 10)
    keys, values = reference.strips(k, v)
    with pytest.raises(ValueError, match="positions 28 to 32 do not fit a cache of 32"):
        attention(q, keys, values, 28, 1.0)
    with pytest.raises(ValueError, match="4 query heads cannot share 3"):
        attention(q, np.zeros((3, 1, 8, 32), np.float32), np.zeros((3, 1, 32, 32), np.float32), 0, 1.0)
    with pytest.raises(ValueError, match=r"values must have shape \(2, 1, 32, 32\)"):
        attention(q, keys, values[:, :, :31], 0, 1.0)


def test_one_scratch_serves_many_calls() -> None:
    scratch = AttentionScratch(40, 2)
    for seed, (tokens, start) in enumerate(((200, 60), (1, 0), (130, 5), (49, 200))):
        q, k, v = case(seed, tokens, 2, 1, 40, start + tokens)
        out = np.full((tokens, 80), np.nan, np.float32)
        cache = reference.strips(k, v)
        assert attention(q, *cache, start, 0.3, out, scratch).tobytes() == attention(q, *cache, start, 0.3).tobytes()
    q, k, v = case(0, 200, 1, 1, 32, 200)
    with pytest.raises(ValueError, match="heads of 40 cannot hold heads of 32"):
        attention(q, *reference.strips(k, v), 0, 1.0, scratch=scratch)


@pytest.mark.parametrize(("width", "threads"), [(2, 1), (40, 3), (64, 2)])
def test_scratch_counts_its_bytes(width: int, threads: int) -> None:
    scratch = AttentionScratch(width, threads)
    arrays = [scratch.index, *(array for block in scratch.blocks for array in vars(block).values())]
    assert scratch.nbytes == AttentionScratch.bytes_for(width, threads) == sum(a.nbytes for a in arrays)
    assert len(arrays) == 1 + 4 * threads
