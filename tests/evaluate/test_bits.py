"""Windows of a text, what tokens cost, and how far one distribution lies from another."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.evaluate.bits import Window, divergence_bits, log_softmax, token_bits, windows
from estream_lab.models.tokenizer import Tokenizer
from estream_lab.streaming import Store
from tests.stores import give_tokenizer, synthetic_store


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    store = Store(give_tokenizer(synthetic_store(tmp_path_factory.mktemp("bits"))))
    assert store.tokenizer_json is not None
    return Tokenizer.from_json(store.tokenizer_json)


def test_windows_follow_each_other_and_have_the_texts_bytes_a_token(tokenizer: Tokenizer) -> None:
    cut = windows(tokenizer, "ab, xyz and " * 8, 20, 3)  # "ab" is one token of two bytes: 88 tokens of 96 bytes
    assert [len(window) for window in cut] == [20, 20, 20]
    np.testing.assert_array_equal(cut[0].ids[-1], cut[1].ids[0])
    assert [window.size_bytes for window in cut] == pytest.approx([20 * 96 / 88] * 3)


def test_fewer_windows_than_fit_are_spread_over_the_text(tokenizer: Tokenizer) -> None:
    text = "".join(chr(33 + i) for i in range(52))  # each its own token: five windows of 10 fit
    ids = tokenizer.encode(text)
    for count, places in ((1, [0]), (2, [0, 2]), (3, [0, 1, 3]), (5, [0, 1, 2, 3, 4])):
        cut = windows(tokenizer, text, 10, count)
        assert [window.ids[0] for window in cut] == [ids[10 * place] for place in places]


def test_windows_that_do_not_fit_are_refused(tokenizer: Tokenizer) -> None:
    for length, count in ((200, 1), (10, 0), (10, 11), (0, 1)):
        with pytest.raises(EStreamError, match="don't fit"):
            windows(tokenizer, "0123456789" * 10, length, count)


def test_a_token_costs_the_logarithm_of_its_probability() -> None:
    logits = np.log(np.array([[1, 2, 5], [6, 1, 1]], np.float32)) + np.float32(3)
    window = Window(np.array([0, 2, 1], np.int32), 2)
    np.testing.assert_allclose(token_bits(log_softmax(logits), window), [-math.log2(5 / 8), 3], rtol=1e-6)


def test_large_logits_do_not_overflow() -> None:
    (row,) = log_softmax(np.array([[1e4, 0, -1e4]], np.float32))
    assert row.tolist() == [0, -1e4, -2e4]


@given(st.lists(st.integers(1, 40), min_size=2, max_size=6), st.integers(0, 40), st.integers(0, 5))
def test_the_divergence_is_that_of_the_two_distributions(weights: list[int], gain: int, place: int) -> None:
    other = [weight + gain * (i == place) for i, weight in enumerate(weights)]
    p, q = (np.log([[float(Fraction(w, sum(each))) for w in each]]) for each in (weights, other))
    expected = sum(math.exp(a) * (a - b) for a, b in zip(p[0], q[0], strict=True)) / math.log(2)
    (found,) = divergence_bits(p, q)
    assert found >= 0 and found == pytest.approx(expected, rel=1e-9, abs=1e-14)


def test_a_divergence_far_below_the_rounding_of_probabilities_is_told() -> None:
    """log q = log p + 1e-9 t has 5e-19 Σ p t²: Σ p log(p / q) alone, of terms near 1e-9, would keep nothing of it."""
    p = log_softmax(np.zeros((1, 4), np.float32))
    t = np.array([[1, -1, 1, -1]])
    (found,) = divergence_bits(p, p + 1e-9 * t)
    assert found == pytest.approx(5e-19 / math.log(2), rel=1e-3, abs=0)
