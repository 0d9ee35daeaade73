"""Bits per byte of a text under a model: the negative log-likelihood that compares models whatever their tokens are."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.models.tokenizer import Tokenizer


@dataclass(frozen=True)
class Window:
    """A stretch of text, read with an empty context.

    Attributes:
        ids: int32 (n + 1,); each but the first is predicted from those before.
        size_bytes: of the n predicted tokens, at the whole text's bytes a token.
    """

    ids: NDArray[np.int32]
    size_bytes: float

    def __len__(self) -> int:
        """n, the tokens that are predicted."""
        return len(self.ids) - 1


def read_text(path: Path) -> str:
    """A file's text; refuses what isn't UTF-8 or can't be read (EStreamError)."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EStreamError(f"can't read {path} as a text in UTF-8: {error}") from error


def windows(tokenizer: Tokenizer, text: str, length: int, count: int) -> tuple[Window, ...]:
    """`count` windows of `length` predicted tokens, evenly spread over a text; adjacent ones share a token.

    Raises:
        EStreamError: the text is too short for them.
    """
    ids = tokenizer.encode(text)
    there = (len(ids) - 1) // length if length > 0 else 0
    if not 1 <= count <= there:
        advice = f"choose from 1 to {there} windows" if there > 0 else "give a longer text, or shorter windows"
        raise EStreamError(f"{count} windows of {length} tokens don't fit a text of {len(ids)}: {advice}")
    share = len(text.encode()) / len(ids)
    starts = [length * (there * place // count) for place in range(count)]
    return tuple(Window(ids[start : start + length + 1], length * share) for start in starts)


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    """Natural log-probabilities (n, V) of logits (n, V), in float64, so that only the logits' own errors remain."""
    z = logits.astype(np.float64)
    z -= z.max(axis=-1, keepdims=True)
    return np.asarray(z - np.log(np.exp(z).sum(axis=-1, keepdims=True)))


def token_bits(logprobs: NDArray[np.float64], window: Window) -> NDArray[np.float64]:
    """-log2 p of each predicted token, (n,), from the log-probabilities (n, V) of all positions but the last."""
    return np.asarray(-logprobs[np.arange(len(window)), window.ids[1:]] / math.log(2))


def divergence_bits(p: NDArray[np.float64], q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Kullback-Leibler divergence of q from p at each position, (n,), from natural log-probabilities (n, V).

    Σ [p log(p / q) - p + q], whose terms are never negative: Σ p log(p / q) alone lets rounding errors of the first
    order in log p - log q stand beside a result of the second.
    """
    gap = p - q
    return np.asarray((np.exp(p) * (gap + np.expm1(-gap))).sum(axis=-1) / math.log(2))
