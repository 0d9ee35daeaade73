"""The memory plan: its formula, its parts against what is really held, and what a budget decides."""

import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.engine import EngineSettings, PrefillEngine, PrefillResult, holdings, memory
from estream_lab.engine.memory import MIB, Beforehand, Demand, least_budget, most_banks, plan_memory
from estream_lab.errors import EStreamError
from estream_lab.experts.retention import KeepFirst
from estream_lab.models.layers import Decoder
from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.streaming import Store
from estream_lab.streaming.loader import Loader
from estream_lab.streaming.pack import pack_synthetic
from tests.stores import dense_store

SPEC = synthetic_spec(hidden=512, ffn=512, layers=3, experts=12, top_k=3, heads=8, vocab=500, context=600)
TOKENS = np.random.default_rng(5).integers(0, SPEC.vocab, 300)
BEFORE = Beforehand(peak=70 * MIB, interpreter=60 * MIB)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(pack_synthetic(SyntheticSource(SPEC), tmp_path_factory.mktemp("m") / "m.estream", progress=False).path)


@pytest.fixture
def _before(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter of the same size each time."""
    monkeypatch.setattr(holdings, "held_before", lambda first, weights: BEFORE)


def test_worked_example_d() -> None:
    """E = 16, W_e = 4, M_other(2) = 30, M_other(4) = 34."""
    assert [most_banks(100, 30, 2 * 4, 8), most_banks(100, 34, 4 * 4, 4)] == [8, 4]
    assert [most_banks(93, 30, 2 * 4, 8), most_banks(93, 34, 4 * 4, 4)] == [7, 3]


@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(1, 10**4), st.integers(1, 64))
def test_one_bank_more_never_fits_or_never_helps(budget: int, other: int, bank: int, groups: int) -> None:
    banks = most_banks(budget, other, bank, groups)
    if banks >= 1:
        assert other + banks * bank <= budget  # inclusive
    assert banks == groups or other + (banks + 1) * bank > budget


@pytest.mark.parametrize(
    ("options", "request_"),
    [
        ({}, {}),
        ({"group_size": 5, "banks": 2, "threads": 1}, {"positions": "all"}),
        ({"chunk_tokens": 64, "route_capacity": 50}, {"positions": "all", "want": "logprobs"}),
        ({"resident": True}, {"want": "hidden", "positions": [3, 3, 299]}),
    ],
)
def test_the_plan_is_what_is_held(store: Store, options: dict[str, Any], request_: dict[str, Any]) -> None:
    check_plan(store, options, request_)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["bf16", "q8_0", "q4_0"])
def test_the_plan_is_what_is_held_of_dense_weights_of_every_kind(tmp_path: Path, kind: str, tied: bool) -> None:
    store = Store(dense_store(tmp_path, kind, replace(SPEC, tied=tied)))
    check_plan(store, {"chunk_tokens": 64}, {"positions": "all"})


def check_plan(store: Store, options: dict[str, Any], request_: dict[str, Any]) -> None:
    with PrefillEngine.open(store, **options) as engine:
        result = engine.prefill(TOKENS, **request_)
        settings = engine.settings
    demand = Demand(len(TOKENS), len(result.output), result.want)  # type: ignore[arg-type]
    planned = plan_memory(store, settings, demand, BEFORE, 1)
    held = result.memory
    assert (planned.arena, planned.weights, planned.kv) == (held["arena"], held["weights"], held["kv"])
    assert planned.kernels == held["kernels"]
    # Planned for, but gone by the end: the rows that are picked, float64 of a block of rows, the prompt's ids, ranking.
    block = min(len(result.output), MIB // (8 * SPEC.vocab)) if result.want == "logprobs" else 1
    ranking = (20 if result.want == "hidden" else 16) * SPEC.vocab
    gone = 4 * len(result.output) * SPEC.hidden + 24 * block * SPEC.vocab + 32 * len(TOKENS) + ranking
    assert planned.activations - held["activations"] == gone


def two_results(store: Path) -> list[PrefillResult]:
    with PrefillEngine.open(store) as engine:
        return [engine.prefill(TOKENS) for _ in range(2)]


def test_the_parts_add_up_to_the_peak_and_little_is_left(store: Store) -> None:
    # in a process of its own: one that has run a thousand tests gives back memory in the middle of a request
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        results = pool.submit(two_results, store.path).result()
    for result in results:
        assert list(result.memory) == [
            "arena", "weights", "kv", "activations", "kernels", "interpreter", "unaccounted"
        ]  # fmt: skip
        assert sum(result.memory.values()) == result.peak_rss_bytes
        assert result.memory["arena"] == result.arena_bytes
        assert result.memory_budget_bytes == 0
        assert abs(result.memory["unaccounted"]) < 8 * MIB  # pages of libraries; below 0 where a bank wasn't touched


def needed(store: Store, settings: EngineSettings, tokens: int, outputs: int = 1, banks: int = 1) -> int:
    return plan_memory(store, settings.complete(store), Demand(tokens, outputs, "logits"), BEFORE, banks).peak_bytes


def run(store: Store, budget: int, tokens: int = 300, positions: Any = "last", **options: Any) -> PrefillResult:
    with PrefillEngine.open(store, memory_budget=budget, **options) as engine:
        return engine.prefill(TOKENS[:tokens], positions=positions)


@pytest.mark.usefixtures("_before")
@pytest.mark.parametrize("group", [1, 3, 5])
def test_banks_fill_the_budget_inclusively(store: Store, group: int) -> None:
    settings = EngineSettings(group_size=group, memory_budget=1)
    most = -(-SPEC.experts // group)
    for banks in {1, 2, most - 1, most}:
        budget = needed(store, settings, 300, banks=banks)
        found = run(store, budget, group_size=group)
        assert (found.banks, found.memory_budget_bytes) == (banks, budget)
        assert found.arena_bytes == banks * group * store.stride
        assert found.memory_planned_bytes <= budget
        if banks > 1:
            assert run(store, budget - 1, group_size=group).banks == banks - 1
    assert run(store, 10**12, group_size=group).banks == most


@pytest.mark.usefixtures("_before")
def test_logits_do_not_depend_on_the_budget(store: Store) -> None:
    with PrefillEngine.open(store) as engine:
        free = engine.prefill(TOKENS, positions="all").logits_sha256
    least = needed(store, EngineSettings(group_size=2, memory_budget=1), 300, 300)
    assert run(store, least, positions="all", group_size=2).logits_sha256 == free


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was read of weights and experts."""
    seen: list[str] = []
    for owner in (Decoder, Loader):
        real = owner.__init__

        def init(self: Any, *arguments: Any, real: Any = real) -> None:
            seen.append(type(self).__name__)
            real(self, *arguments)

        monkeypatch.setattr(owner, "__init__", init)
    return seen


@pytest.mark.usefixtures("_before")
@pytest.mark.parametrize("options", [{}, {"group_size": 3, "banks": 4}, {"resident": True}])
def test_too_small_a_budget_is_refused_before_anything_is_read(
    store: Store, reads: list[str], options: dict[str, Any]
) -> None:
    settings = EngineSettings(memory_budget=1, **options)
    least = needed(store, settings, 300)
    with PrefillEngine.open(store, memory_budget=least - 1, **options) as engine:
        with pytest.raises(EStreamError, match=r"too small for 300 tokens.*the least that works is \d+MiB") as refused:
            engine.prefill(TOKENS)
        assert reads == []
        engine.prefill(TOKENS[:40])  # a shorter one fits
        assert sorted(reads) == ["Decoder", "Loader"]
    named = int(re.search(r"works is (\d+)MiB", str(refused.value))[1]) * MIB  # type: ignore[index]
    assert least <= named <= least + memory.RERUN_BYTES + MIB
    assert run(store, least, **options).memory_planned_bytes == least
    assert run(store, named, **options).memory_planned_bytes <= named


@pytest.mark.usefixtures("_before")
def test_what_the_process_took_already_counts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    much = Beforehand(peak=500 * MIB, interpreter=60 * MIB)
    monkeypatch.setattr(holdings, "held_before", lambda first, weights: much)
    with pytest.raises(EStreamError, match="the least that works is 502MiB"):
        run(store, 499 * MIB)
    assert run(store, 500 * MIB).banks == 2


@pytest.mark.usefixtures("_before")
@pytest.mark.parametrize(
    ("given", "fitting", "hint"),
    [
        ({"group_size": 12}, {"group_size": 3}, "; groups of 3 would fit"),
        ({"group_size": 1}, {"group_size": 1, "chunk_tokens": 75}, "; chunks of 75 tokens would fit"),
        (
            {"group_size": 12}, {"group_size": 1, "chunk_tokens": 18},
            "; groups of 1 and chunks of 18 tokens would fit",
        ),
        ({"resident": True}, {}, "; streamed experts would fit"),
        ({"group_size": 1, "chunk_tokens": 16}, None, "MiB"),
    ],
)  # fmt: skip
def test_a_refusal_tells_what_would_fit(
    store: Store, given: dict[str, Any], fitting: dict[str, Any] | None, hint: str
) -> None:
    budget = 1
    if fitting is not None:
        settings = EngineSettings(memory_budget=1, **fitting).complete(store)
        budget = least_budget(store, settings, Demand(300, 1, "logits"), BEFORE)
        run(store, budget, **fitting)
    with pytest.raises(EStreamError) as refused:
        run(store, budget, **given)
    assert str(refused.value).endswith(hint)


@pytest.mark.usefixtures("_before")
def test_a_budget_holds_over_requests_of_every_size(store: Store) -> None:
    """Room made for one request makes way where a later one needs it otherwise, and banks with it."""
    settings = EngineSettings(group_size=1, memory_budget=1)
    budget = needed(store, settings, 300, 300, banks=2)
    with PrefillEngine.open(store) as engine:
        alone = {n: engine.prefill(TOKENS[:n], positions="all").logits_sha256 for n in (50, 300)}
    with PrefillEngine.open(store, group_size=1, memory_budget=budget) as engine:
        last = engine.prefill(TOKENS)
        every = engine.prefill(TOKENS, positions="all")
        again = engine.prefill(TOKENS)
        short = engine.prefill(TOKENS[:50], positions="all")
        assert last.banks > every.banks == again.banks == short.banks == 2
        assert (every.logits_sha256, short.logits_sha256) == (alone[300], alone[50])
        assert max(r.memory_planned_bytes for r in (last, every, again, short)) <= budget
        with pytest.raises(EStreamError, match="too small for 600 tokens"):
            engine.prefill(np.concatenate([TOKENS, TOKENS]), positions="all")
        assert engine.prefill(TOKENS, positions="all").logits_sha256 == alone[300]


@pytest.mark.usefixtures("_before")
def test_room_can_be_made_ahead(store: Store, reads: list[str]) -> None:
    settings = EngineSettings(memory_budget=1, group_size=1)
    with PrefillEngine.open(store, group_size=1, memory_budget=needed(store, settings, 300, 40, banks=3)) as engine:
        with pytest.raises(EStreamError, match="too small for 600 tokens"):
            engine.prepare(600, outputs=600)
        with pytest.raises(EStreamError, match="601 tokens and the model's context is 600"):
            engine.prepare(601)
        assert reads == []
        plan = engine.prepare(300, outputs=40)
        assert plan.arena == 3 * store.stride and sorted(reads) == ["Decoder", "Loader"]
        result = engine.prefill(TOKENS[:200], positions=range(40))
        assert result.banks == 3 and len(reads) == 2
        assert result.memory["kv"] == plan.kv


@pytest.mark.usefixtures("_before")
def test_policies_that_hold_more_layers_get_more_banks_and_kept_ones_count(store: Store) -> None:
    assert run(store, 10**12, group_size=3).banks == 4
    assert run(store, 10**12, group_size=3, carry_over=True).banks == 8
    assert run(store, 10**12, group_size=3, retention=KeepFirst(2)).banks == 12
    settings = EngineSettings(group_size=3, memory_budget=1, retention=KeepFirst(2))
    least = needed(store, settings, 300, banks=3)  # two that are kept, and one to read into
    assert run(store, least, group_size=3, retention=KeepFirst(2)).banks == 3
    with pytest.raises(EStreamError, match="too small"):
        run(store, least - 1, group_size=3, retention=KeepFirst(2))
    with pytest.raises(EStreamError, match="keeping 12 of 12 banks leaves none"):
        run(store, 10**12, group_size=3, retention=KeepFirst(12))
