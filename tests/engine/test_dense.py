"""Whole models with dense weights of every kind: what is told of them, their memory, and bits that nothing changes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.engine import EngineSettings, PrefillEngine, PrefillResult, holdings
from estream_lab.engine.memory import MIB, Beforehand, Demand, plan_memory
from estream_lab.errors import EStreamError
from estream_lab.kernels.projections import STRIPS
from estream_lab.models.dense import quantisable
from estream_lab.models.synthetic import synthetic_spec
from estream_lab.streaming import Store
from tests.stores import SPEC, dense_store

TOKENS = np.random.default_rng(7).integers(0, SPEC.vocab, 70)
KINDS = ("f32", "bf16", "q8_0", "q4_0")
BEFORE = Beforehand(peak=0, interpreter=60 * MIB)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Store]:
    folder = tmp_path_factory.mktemp("dense")
    return {kind: Store(dense_store(folder, kind)) for kind in KINDS}


def prefill(store: Store, **options: Any) -> PrefillResult:
    with PrefillEngine.open(store, group_size=3, **options) as engine:
        return engine.prefill(TOKENS, positions="all")


@pytest.mark.parametrize("kind", KINDS)
def test_every_result_tells_the_kind(stores: dict[str, Store], kind: str) -> None:
    result = prefill(stores[kind])
    assert result.dense_quant == result.to_json()["dense_quant"] == kind
    assert result.trace.provenance["dense_quant"] == kind
    assert result.layout == "q4-32x32"  # the experts'


@pytest.mark.parametrize("tied", [False, True])
def test_bf16_weights_take_half_the_memory_and_change_no_bit(tmp_path: Path, tied: bool) -> None:
    spec = replace(SPEC, tied=tied)
    wide, half = (prefill(Store(dense_store(tmp_path, kind, spec))) for kind in ("f32", "bf16"))
    assert half.output.tobytes() == wide.output.tobytes()
    vectors = 4 * sum(shape[0] for shape in spec.dense_shapes().values() if len(shape) == 1)
    assert half.dense_bytes - vectors == (wide.dense_bytes - vectors) / 2


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
@pytest.mark.parametrize("tied", [False, True])
def test_quantised_weights_are_held_as_they_are_stored(tmp_path: Path, kind: str, tied: bool) -> None:
    spec = replace(SPEC, tied=tied)
    store = Store(dense_store(tmp_path, kind, spec))
    strips = STRIPS[next(iter(store.dense.layouts.values()))]
    rest = sum(np.prod(shape) for name, shape in spec.dense_shapes().items() if len(shape) == 1)
    routers = spec.layers * 32 * spec.hidden  # 10 outputs, padded
    quantised = sum(strips.bytes_for(*shape) for shape in quantisable(spec).values())
    assert prefill(store).dense_bytes == quantised + 4 * (rest + routers)


@pytest.mark.parametrize("kind", ["q8_0", "q4_0"])
@pytest.mark.parametrize(
    "options",
    [
        {"chunk_tokens": 1, "threads": 1},
        {"chunk_tokens": 9, "schedule": "on-demand", "banks": 1},
        {"chunk_tokens": 33, "profile": "host-f32", "route_capacity": 7},
    ],
)
def test_neither_chunks_nor_threads_change_a_bit(stores: dict[str, Store], kind: str, options: dict[str, Any]) -> None:
    profile = {"profile": options["profile"]} if "profile" in options else {}
    whole = prefill(stores[kind], resident=True, **profile)
    assert prefill(stores[kind], **options).output.tobytes() == whole.output.tobytes()


def test_logits_are_off_by_what_the_weights_lost(stores: dict[str, Store]) -> None:
    exact = prefill(stores["f32"]).output
    error = {
        kind: np.linalg.norm(prefill(stores[kind]).output - exact) / np.linalg.norm(exact) for kind in ("q8_0", "q4_0")
    }
    assert 1e-3 < error["q8_0"] < 0.1 < error["q4_0"] < 1  # routes flip with random weights


def test_a_memory_budget_goes_further_with_smaller_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "held_before", lambda first, weights: BEFORE)
    spec = synthetic_spec(hidden=256, ffn=32, layers=2, experts=4, top_k=2, heads=4, vocab=3000, context=128)
    least: dict[str, int] = {}
    for kind in KINDS:
        store = Store(dense_store(tmp_path, kind, spec))
        settings = EngineSettings(group_size=1, memory_budget=1).complete(store)
        least[kind] = plan_memory(store, settings, Demand(70, 1, "logits"), BEFORE, 1).peak_bytes
        engine = PrefillEngine.open(store, group_size=1, memory_budget=least[kind] - 1)
        with pytest.raises(EStreamError, match="too small for 70 tokens"), engine:
            engine.prefill(TOKENS)
        with PrefillEngine.open(store, group_size=1, memory_budget=least[kind]) as engine:
            assert engine.prefill(TOKENS).memory_planned_bytes == least[kind]
    assert least["q4_0"] < least["q8_0"] < least["bf16"] < least["f32"]
