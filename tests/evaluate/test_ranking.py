"""Ranking choices by log-probability."""

import json
from pathlib import Path

import numpy as np
import pytest

from estream_lab.cli import main
from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.evaluate import rank_choices
from tests.stores import give_tokenizer, synthetic_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a tokenizer of ASCII characters and one merge, so that borders can move: "ab" is one token."""
    return give_tokenizer(synthetic_store(tmp_path_factory.mktemp("evaluate")))


def log_probability(engine: PrefillEngine, tokens: list[int], first: int) -> float:
    """Sum over tokens[first:] of log p(token | those before), in float64, from all logits."""
    logits = engine.prefill(tokens, positions="all").output.astype(np.float64)
    logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
    return float(sum(logits[i - 1, tokens[i]] for i in range(first, len(tokens))))


def test_scores_are_sums_of_log_probabilities_and_sort_the_choices(store: Path) -> None:
    choices = ["yes", "no", "maybe"]
    with PrefillEngine.open(store) as engine:
        assert engine.tokenizer is not None
        ranking = rank_choices(engine, "Is it? ", choices)
        expected = [log_probability(engine, list(engine.tokenizer.encode("Is it? " + c)), 7) for c in choices]
    assert ranking.indices == sorted(range(3), key=lambda i: -expected[i])
    for index, score in zip(ranking.indices, ranking.choices, strict=True):
        assert score.text == choices[index]
        assert score.logprob == pytest.approx(expected[index], rel=1e-5)
        assert score.per_token == pytest.approx(expected[index] / len(choices[index]), rel=1e-5)


def test_the_mean_over_tokens_may_rank_otherwise(store: Path) -> None:
    with PrefillEngine.open(store) as engine:
        ranking = rank_choices(engine, "x", ["q", "zzzzzz"], per_token=True)
    means = [choice.per_token for choice in ranking.choices]
    assert means == sorted(means, reverse=True)
    assert ranking.by == "per_token"


def test_a_merge_across_the_border_moves_the_start_of_every_choice(store: Path) -> None:
    with PrefillEngine.open(store) as engine:
        assert engine.tokenizer is not None
        ranking = rank_choices(engine, "xa", ["b", "c"])
        merged = list(engine.tokenizer.encode("xab"))
        assert len(merged) == 2  # x, ab
        by_text = {choice.text: choice for choice in ranking.choices}
        assert by_text["b"].logprob == pytest.approx(log_probability(engine, merged, 1), rel=1e-5)
        assert by_text["c"].logprob == pytest.approx(
            log_probability(engine, list(engine.tokenizer.encode("xac")), 1), rel=1e-5
        )  # p(a, c | x) beside p(ab | x), not p(c | x, a)
        assert (by_text["b"].tokens, by_text["c"].tokens) == (1, 2)


@pytest.mark.parametrize(
    ("prompt", "choices", "message"),
    [
        ("x", ["b"], "at least two choices"),
        ("x", ["b", "b"], "all 2 choices score .*nothing to rank"),
        ("x", ["b", ""], "adds no token"),
        ("", ["b", "c"], "at least one token that all choices share"),
    ],
)
def test_what_can_not_be_ranked_is_refused(store: Path, prompt: str, choices: list[str], message: str) -> None:
    with PrefillEngine.open(store) as engine, pytest.raises(EStreamError, match=message):
        rank_choices(engine, prompt, choices)


def test_a_budget_must_hold_the_longest_choice_before_the_first_is_run(store: Path) -> None:
    refused = pytest.raises(EStreamError, match="too small for 7 tokens")
    with PrefillEngine.open(store, memory_budget=1) as engine, refused:
        rank_choices(engine, "x", ["b", "zzzzzz"])


def test_a_store_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with PrefillEngine.open(synthetic_store(tmp_path)) as engine, pytest.raises(EStreamError, match="no tokenizer"):
        rank_choices(engine, "a", ["b", "c"])


def test_the_command_prints_the_ranking(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["score", str(store), "--prompt", "Is it? ", "--choice", "yes", "--choice", "no"]
    assert main([*arguments, "--json"]) == 0
    ranking = json.loads(capsys.readouterr().out)
    assert sorted(ranking["indices"]) == [0, 1]
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith(repr(ranking["choices"][0]["text"]))
    assert main([*arguments[:4], "--choice", "no", "--choice", "no"]) == 1
    assert "nothing to rank" in capsys.readouterr().err
