"""Bits per byte of a text under a model: the negative log-likelihood that compares models whatever their tokens are."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
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


@dataclass(frozen=True)
class Bits:
    """What a text costs.

    Attributes:
        windows, tokens: how many were predicted.
        bits_per_token, bits_per_byte: the mean.
    """

    windows: int
    tokens: int
    bits_per_token: float
    bits_per_byte: float

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def windows(tokenizer: Tokenizer, text: str, length: int, count: int) -> tuple[Window, ...]:
    """`count` windows of `length` predicted tokens, evenly spread over a text; adjacent ones share a token.

    Raises:
        EStreamError: the text is too short for them.
    """
    ids = tokenizer.encode(text)
    there = (len(ids) - 1) // length if length > 0 else 0
    if not 1 <= count <= there:
        raise EStreamError(f"{count} windows of {length} tokens don't fit {len(ids)}: choose from 1 to {there} windows")
    share = len(text.encode()) / len(ids)
    starts = [length * (there * place // count) for place in range(count)]
    return tuple(Window(ids[start : start + length + 1], length * share) for start in starts)


def token_bits(logprobs: NDArray[np.float32], window: Window) -> NDArray[np.float64]:
    """-log2 p of each predicted token, (n,), from the log-probabilities (n, V) of all positions but the last."""
    return -logprobs[np.arange(len(window)), window.ids[1:]].astype(np.float64) / math.log(2)


def bits_per_byte(engine: PrefillEngine, found: Iterable[Window]) -> Bits:
    """What windows cost under an engine's model, one prefill each.

    Raises:
        EStreamError: windows longer than the model's context, or what `PrefillEngine.prefill` raises.
    """
    bits, tokens, size, count = 0.0, 0, 0.0, 0
    for window in found:
        result = engine.prefill(window.ids[:-1], want="logprobs", positions="all")
        bits += math.fsum(token_bits(result.output, window))
        tokens, size, count = tokens + len(window), size + window.size_bytes, count + 1
    if not count:
        raise EStreamError("there is no window to measure: give at least one")
    return Bits(count, tokens, bits / tokens, bits / size)
