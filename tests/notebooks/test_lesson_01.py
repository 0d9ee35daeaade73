"""Lesson 01 as a reader gets it, and its figures computed once more from the checkpoint by other means."""

from typing import Any

import nbformat
import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.notebooks import run
from estream_lab.routing import Routes
from estream_lab.streaming.pack import pack

from .lessons import NOTEBOOKS, check_form

LESSON = NOTEBOOKS / "01_routing.ipynb"
SHIPPED = NOTEBOOKS.parent / "data" / "tiny_moe"
TOKENS, EXPERTS, TOP_K = 128, 16, 2  # fast = true


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    (result,) = run([LESSON], {"fast": True}, tmp_path_factory.mktemp("lesson")).notebooks
    assert result.output_bytes < 400_000
    return result.records


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> PrefillEngine:
    store = tmp_path_factory.mktemp("store") / "tiny.estream"
    pack(SHIPPED / "checkpoint", store, progress=False)
    return PrefillEngine.open(store, resident=True)


def routed(engine: PrefillEngine, tokens: bytes | NDArray[np.int64]) -> dict[int, Routes]:
    """The routes of a prompt; the shipped tokenizer's ids are the bytes."""
    return engine.prefill(np.frombuffer(tokens, np.uint8) if isinstance(tokens, bytes) else tokens).routes


def effective(routes: Routes) -> float:
    """exp of the entropy of the experts' shares, written out."""
    shares = [n / len(routes) for n in np.bincount(routes.expert).tolist() if n]
    return float(np.prod([share**-share for share in shares]))


def heldout(name: str, length: int = TOKENS) -> bytes:
    return (SHIPPED / "heldout" / name).read_bytes()[:length]


def test_it_has_the_form_of_a_lesson() -> None:
    check_form(LESSON)
    figures = [c for c in nbformat.read(LESSON, as_version=4).cells if "figures." in c.source]
    assert len(figures) == 7


def test_the_logits_shown_are_those_that_the_engine_routes_by(records: dict[str, Any]) -> None:
    assert records["logits_give_the_routes"] is True


def test_only_two_families_keep_the_sum_of_weights_below_one(records: dict[str, Any], engine: PrefillEngine) -> None:
    sums = records["weight_sums"]
    kept = float(routed(engine, heldout("text.txt"))[0].weight.sum() / TOKENS)
    assert sums["OLMoE-1B-7B"] == sums["DeepSeek-V2-Lite"] == pytest.approx(kept, rel=1e-6)
    assert kept < 0.5
    assert [sums[name] for name in ("Qwen3-30B-A3B", "Mixtral-8x7B", "LFM2-8B-A1B")] == pytest.approx([1] * 3, abs=1e-5)


def test_random_ids_are_more_skewed_than_text_and_code(records: dict[str, Any], engine: PrefillEngine) -> None:
    noise = np.random.default_rng(0).integers(0, 256, TOKENS)
    inputs = {"English": heldout("text.txt"), "Python": heldout("code.txt"), "random ids": noise}
    for name, tokens in inputs.items():
        expected = [effective(routes) for routes in routed(engine, tokens).values()]
        assert records["effective_experts"][name] == pytest.approx(expected, rel=1e-9)
    told = records["effective_experts"]
    assert max(told["random ids"][2:]) < 0.7 * min(told["English"][2:] + told["Python"][2:])


def test_one_run_tells_what_every_shorter_prompt_touches(records: dict[str, Any], engine: PrefillEngine) -> None:
    whole = routed(engine, heldout("text.txt"))
    assert records["touched"] == [len(set(routes.expert.tolist())) for routes in whole.values()]
    for length in (1, 7, 40):
        for layer, short in routed(engine, heldout("text.txt", length)).items():
            assert short.expert.tolist() == whole[layer].expert[: TOP_K * length].tolist()


def test_rows_and_losses_are_those_of_the_measured_routes(records: dict[str, Any], engine: PrefillEngine) -> None:
    routes = routed(engine, heldout("text.txt"))[2]
    counts = np.bincount(routes.expert, minlength=EXPERTS).tolist()
    limit = -(-5 * len(routes) // (4 * EXPERTS))  # a capacity factor of 5/4
    dropped = sum(max(n - limit, 0) for n in counts)
    assert records["rows"] == {
        "each expert as many rows as tokens": [EXPERTS * TOKENS, 0],
        "each expert as many rows as the busiest": [EXPERTS * max(counts), 0],
        "capacity factor 1.25": [EXPERTS * limit, dropped],
        "exact, in tiles of 32 rows": [sum(-(-n // 32) * 32 for n in counts), 0],
        "exact compaction": [TOP_K * TOKENS, 0],
    }
    seen: dict[int, int] = dict.fromkeys(range(EXPERTS), 0)
    lost = 0.0
    for expert, weight in zip(routes.expert.tolist(), routes.weight.tolist(), strict=True):
        seen[expert] += 1
        lost += weight if seen[expert] > limit else 0.0
    assert dropped > 0
    assert records["weight_dropped"] == pytest.approx(lost / routes.weight.sum(dtype=np.float64), rel=1e-5)
