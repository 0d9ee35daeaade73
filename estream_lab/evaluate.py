"""Scoring with a prefill-only model: which of several continuations is likeliest."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError


@dataclass(frozen=True)
class ChoiceScore:
    """One continuation's score.

    Attributes:
        text: the continuation.
        tokens: its length in tokens.
        logprob: sum of its tokens' log-probabilities after the prompt, natural logarithm.
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
    scores = [_score(engine, prompt, choice) for choice in choices]
    by = "per_token" if per_token else "logprob"
    values = [getattr(score, by) for score in scores]
    if len(set(values)) == 1:
        raise EStreamError(f"all {len(choices)} choices score {values[0]:.6f}: there is nothing to rank")
    indices = sorted(range(len(scores)), key=lambda i: -values[i])
    return Ranking([scores[i] for i in indices], by, indices)


def _score(engine: PrefillEngine, prompt: str, choice: str) -> ChoiceScore:
    assert engine.tokenizer is not None
    before = engine.tokenizer.encode(prompt)
    whole = engine.tokenizer.encode(prompt + choice)
    # a merge across the border changes the prompt's last tokens: score from where the two begin to differ
    same = next(
        (i for i, (a, b) in enumerate(zip(before, whole, strict=False)) if a != b), min(len(before), len(whole))
    )
    if not choice or same == len(whole):
        raise EStreamError(f"the choice '{choice}' adds no token to the prompt")
    if same == 0:
        raise EStreamError("the prompt must have at least one token that all choices share")
    rows = range(same - 1, len(whole) - 1)
    result = engine.prefill(whole, want="logprobs", positions=list(rows))  # (n, V)
    logprob = math.fsum(float(result.output[i, whole[row + 1]]) for i, row in enumerate(rows))
    return ChoiceScore(choice, len(rows), logprob, logprob / len(rows))
