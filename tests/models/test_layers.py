from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.models import Decoder, ExpertSource, ModelSpec
from estream_lab.models.layers import KVCache

from .checkpoints import write
from .kinds import as_kind
from .test_spec import SPEC as BASE

SPEC = replace(BASE, layers=2, context=64)


def weights(spec: ModelSpec, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in spec.dense_shapes().items()}


WEIGHTS = weights(SPEC)
DECODER = Decoder(SPEC, WEIGHTS.__getitem__)


def attend(layer: int, x: np.ndarray, cache: KVCache, start: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x plus attention, its norm, and router logits, computed in a larger workspace than needed."""
    work = DECODER.new_workspace(70, 2).first(len(x))
    work.x[:] = x
    DECODER.attend(layer, cache, start, work)
    return work.x, work.normed, work.logits


def rms(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + SPEC.rms_eps) * weight


def turned(x: np.ndarray) -> np.ndarray:
    """x (T, heads, D) turned as complex pairs (i, i + D/2) by position · θ^(-2i/D)."""
    half = SPEC.head_dim // 2
    angles = np.arange(len(x))[:, None] * SPEC.rope_theta ** -(np.arange(half) / half)
    pairs = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)[:, None]
    return np.concatenate([pairs.real, pairs.imag], -1)


def attend_in_float64(layer: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The definition, position by position and head by head."""
    w = {name: weight.astype(np.float64) for name, weight in WEIGHTS.items()}
    at, rows = f"layers.{layer}.", len(x)
    normed = rms(x, w[at + "attention_norm.weight"])
    q = rms(normed @ w[at + "q_proj.weight"].T, w[at + "q_norm.weight"]).reshape(rows, SPEC.heads, -1)
    k = rms(normed @ w[at + "k_proj.weight"].T, w[at + "k_norm.weight"]).reshape(rows, SPEC.kv_heads, -1)
    v = (normed @ w[at + "v_proj.weight"].T).reshape(rows, SPEC.kv_heads, -1)
    q, k = turned(q), turned(k)
    mixed = np.empty((rows, SPEC.heads, SPEC.head_dim))
    for t in range(rows):
        for head in range(SPEC.heads):
            shared = head * SPEC.kv_heads // SPEC.heads
            scores = np.exp(k[: t + 1, shared] @ q[t, head] / np.sqrt(SPEC.head_dim))
            mixed[t, head] = scores / scores.sum() @ v[: t + 1, shared]
    residual = x + mixed.reshape(rows, -1) @ w[at + "o_proj.weight"].T
    after = rms(residual, w[at + "expert_norm.weight"])
    return residual, after, after @ w[at + "router.weight"].T


@pytest.mark.parametrize("layer", range(SPEC.layers))
@pytest.mark.parametrize("rows", [1, 2, 33, 64])
def test_attend_is_the_definition(layer: int, rows: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, SPEC.hidden)).astype(np.float32)
    found = attend(layer, x, DECODER.new_cache(64), 0)
    for ours, exact in zip(found, attend_in_float64(layer, x.astype(np.float64)), strict=True):
        assert ours.dtype == np.float32
        assert np.abs(ours - exact).max() < 2e-5 * max(1, np.abs(exact).max())


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 64), st.sets(st.integers(1, 63)), st.integers(0, 1))
def test_chunks_do_not_change_a_bit(rows: int, cuts: set[int], layer: int) -> None:
    x = np.random.default_rng(rows).standard_normal((rows, SPEC.hidden)).astype(np.float32)
    whole = attend(layer, x, DECODER.new_cache(rows), 0)
    cache = DECODER.new_cache(64)
    edges = [0, *sorted(cut for cut in cuts if cut < rows), rows]
    pieces = [attend(layer, x[a:b], cache, a) for a, b in pairwise(edges)]
    for together, piece in zip(whole, zip(*pieces, strict=True), strict=True):
        assert np.concatenate(piece).tobytes() == together.tobytes()


def test_norm_and_logits_are_the_definition() -> None:
    x = np.random.default_rng(3).standard_normal((5, SPEC.hidden)).astype(np.float32)
    hidden = DECODER.norm(x)
    assert np.abs(hidden - rms(x.astype(np.float64), WEIGHTS["norm.weight"])).max() < 1e-5
    exact = hidden.astype(np.float64) @ WEIGHTS["head.weight"].T.astype(np.float64)
    assert np.abs(DECODER.logits(hidden) - exact).max() < 1e-4
    assert DECODER.logits(hidden).shape == (5, SPEC.vocab)


@pytest.mark.parametrize("ids", [[3, 255, 0, 3], [7], []])
def test_embedding_picks_rows(ids: list[int]) -> None:
    tokens = np.array(ids, np.int32)
    embedded = DECODER.embed(tokens)
    assert np.array_equal(embedded, WEIGHTS["embed.weight"][tokens])
    room = np.full((len(ids), SPEC.hidden), np.nan, np.float32)
    assert DECODER.embed(tokens, room) is room and np.array_equal(room, embedded)
    embedded[:] = 0  # a copy: the caller adds to it in place
    assert np.array_equal(DECODER.embed(tokens), WEIGHTS["embed.weight"][tokens])


@pytest.mark.parametrize("vocab", [256, 250])
def test_tied_weights_are_held_once_and_give_the_same_bits(vocab: int) -> None:
    spec = replace(SPEC, vocab=vocab)
    untied = weights(spec)
    untied["head.weight"] = untied["embed.weight"]
    two = Decoder(spec, untied.__getitem__)
    one = Decoder(replace(spec, tied=True), {k: v for k, v in untied.items() if k != "head.weight"}.__getitem__)
    tokens = np.arange(vocab, dtype=np.int32)
    assert np.array_equal(one.embed(tokens), two.embed(tokens))
    assert np.array_equal(one.logits(two.embed(tokens[:9])), two.logits(two.embed(tokens[:9])))
    assert one.nbytes == two.nbytes - untied["embed.weight"].nbytes


@pytest.mark.parametrize("token", [-1, 256, 1 << 20])
def test_a_token_outside_the_vocabulary_is_named(token: int) -> None:
    with pytest.raises(EStreamError, match=f"token id {token} is outside the vocabulary; use ids from 0 to 255"):
        DECODER.embed(np.array([1, token, 2], np.int64))


@pytest.mark.parametrize("kind", ["f32", "q8-32x32"])
@pytest.mark.parametrize("most", [1, 4, 100])
def test_the_head_takes_as_many_rows_at_a_time_as_its_scratch_memory(kind: str, most: int) -> None:
    decoder = Decoder(SPEC, lambda name: as_kind(WEIGHTS[name], kind if name == "head.weight" else "f32"))
    x = np.random.default_rng(3).standard_normal((11, SPEC.hidden)).astype(np.float32)
    scratch = decoder.new_workspace(most).linear
    assert decoder.logits(x, scratch).tobytes() == decoder.logits(x).tobytes()
    assert decoder.logits(x[:0], scratch).shape == (0, SPEC.vocab)


def test_prompts_beyond_the_context_are_refused() -> None:
    with pytest.raises(EStreamError, match="65 tokens exceed the model's context of 64; shorten the prompt"):
        DECODER.new_cache(65)
    with pytest.raises(EStreamError, match="9 tokens exceed the cache's 8 positions"):
        attend(0, np.zeros((5, SPEC.hidden), np.float32), DECODER.new_cache(8), 4)


@pytest.mark.parametrize("name", sorted(SPEC.dense_shapes()))
def test_a_weight_of_another_shape_is_named(name: str) -> None:
    wrong = {**WEIGHTS, name: np.zeros((3, 5), np.float32)}
    with pytest.raises(EStreamError, match=f"weight {name} has shape \\(3, 5\\) where the model needs"):
        Decoder(SPEC, wrong.__getitem__)


def test_bytes_are_counted() -> None:
    # All widths here are multiples of the kernels' 32 columns but the routers' 8.
    padding = SPEC.layers * (32 - SPEC.experts) * SPEC.hidden * 4
    assert DECODER.nbytes == sum(weight.nbytes for weight in WEIGHTS.values()) + padding
    cache = DECODER.new_cache(10)
    assert cache.capacity == 10
    rounded = SPEC.kv_heads * 32 * (SPEC.head_dim + 32 * -(-SPEC.head_dim // 32))  # positions, and elements of values
    assert cache.nbytes == KVCache.bytes_for(SPEC, 10) == 4 * (SPEC.layers * rounded + 10 * SPEC.head_dim)


def test_a_checkpoint_feeds_a_decoder(tmp_path: Path) -> None:
    with ExpertSource.open(write(tmp_path)) as source:
        decoder = Decoder(source.spec, source.dense)
    work = decoder.new_workspace(3)
    x = decoder.embed(np.array([1, 2, 3], np.int32), work.x).copy()
    decoder.attend(1, decoder.new_cache(3), 0, work)
    assert np.isfinite(work.logits).all() and work.logits.shape == (3, source.spec.experts)
    assert not np.array_equal(work.x, x)
