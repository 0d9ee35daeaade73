"""Scoring with a prefill-only model: which of several continuations is likeliest."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError


@dataclass(frozen=True)
class ChoiceScore:
    """One continuation's score.

    Attributes:
        text: the continuation.
        tokens: its length in tokens, counted for all choices from where one first leaves the prompt's tokens.
        logprob: sum of these tokens' log-probabilities, natural logarithm.
        per_token: the mean.
    """

    text: str
    tokens: int
    logprob: float
    per_token: float


@dataclass(frozen=True)
class Ranking:
    """Choices from likeliest to least likely.

    Attributes:
        choices: sorted by ``by``, descending; equal ones in the order given.
        by: "logprob" or "per_token".
        indices: place of each in the order given.
    """

    choices: list[ChoiceScore]
    by: str
    indices: list[int]

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def rank_choices(engine: PrefillEngine, prompt: str, choices: Sequence[str], *, per_token: bool = False) -> Ranking:
    """Rank continuations of a prompt by log-probability, one prefill each.

    Args:
        engine: an open engine whose store has a tokenizer.
        prompt: the common beginning; at least one token.
        choices: at least two continuations, each at least one token.
        per_token: rank by the mean over a choice's tokens instead of the sum.

    Raises:
        EStreamError: fewer than two choices, an empty one, no tokenizer, or scores that are all equal (no ranking).
    """
    if engine.tokenizer is None:
        raise EStreamError(f"{engine.store.path} has no tokenizer, so text can't be scored")
    if len(choices) < 2:
        raise EStreamError("ranking needs at least two choices")
    tokens = [engine.tokenizer.encode(prompt + choice) for choice in choices]
    first = _border(engine.tokenizer.encode(prompt), choices, tokens)
    longest = max(map(len, tokens))
    engine.prepare(longest, "logprobs", longest - first)  # room for all, or a refusal before the first is run
    scores = [_score(engine, choice, ids, first) for choice, ids in zip(choices, tokens, strict=True)]
    by = "per_token" if per_token else "logprob"
    values = [getattr(score, by) for score in scores]
    if len(set(values)) == 1:
        raise EStreamError(f"all {len(choices)} choices score {values[0]:.6f}: there is nothing to rank")
    indices = sorted(range(len(scores)), key=lambda i: -values[i])
    return Ranking([scores[i] for i in indices], by, indices)


def _border(prompt: NDArray[np.int32], choices: Sequence[str], tokens: Sequence[NDArray[np.int32]]) -> int:
    """From which token on all choices are scored.

    A merge across the border changes the prompt's last tokens for one choice and not for another: sums that begin at
    different places are no probabilities of the same thing, so all begin where the first of them leaves the prompt's.
    """
    firsts = []
    for choice, whole in zip(choices, tokens, strict=True):
        both = min(len(prompt), len(whole))
        same = next((i for i in range(both) if prompt[i] != whole[i]), both)
        if not choice or same == len(whole):
            raise EStreamError(f"the choice '{choice}' adds no token to the prompt")
        firsts.append(same)
    if min(firsts) == 0:
        raise EStreamError("the prompt must have at least one token that all choices share")
    return min(firsts)


def _score(engine: PrefillEngine, choice: str, tokens: NDArray[np.int32], first: int) -> ChoiceScore:
    """The score of ``tokens[first:]`` after those before."""
    rows = range(first - 1, len(tokens) - 1)
    result = engine.prefill(tokens, want="logprobs", positions=list(rows))  # (n, V)
    logprob = math.fsum(float(result.output[i, tokens[row + 1]]) for i, row in enumerate(rows))
    return ChoiceScore(choice, len(rows), logprob, logprob / len(rows))
