"""Whole models under the device's arithmetic: the same bits whatever streams, and its steps."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.engine import EngineSettings, PrefillEngine, PrefillResult
from estream_lab.engine import prefill as engine_module
from estream_lab.engine.memory import SPAN_BYTES, Beforehand, Demand, plan_memory
from estream_lab.errors import EStreamError
from estream_lab.experts.executors import exact
from estream_lab.kernels.exact import PROFILES
from estream_lab.kernels.vtcm import plan_tiles
from estream_lab.streaming import Store
from tests.stores import SPEC, synthetic_store

TOKENS = np.random.default_rng(7).integers(0, SPEC.vocab, 33)


def prefill(store: Path, **options: Any) -> PrefillResult:
    with PrefillEngine.open(store, poison=True, executor="exact", **options) as engine:
        return engine.prefill(TOKENS, positions="all")


@pytest.fixture(scope="module")
def resident(store_path: Path) -> dict[str, PrefillResult]:
    return {name: prefill(store_path, profile=name, resident=True) for name in PROFILES}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "on-demand", "group_size": 3, "banks": 1},
        {"schedule": "after-routing", "group_size": 1, "banks": 4, "route_capacity": 7},
        {"schedule": "early", "group_size": 4, "banks": 2, "chunk_tokens": 9, "threads": 1},
        {"schedule": "early", "carry_over": True, "group_size": 2, "banks": 3, "vtcm_bytes": 170_000},
    ],
)
def test_logits_are_bit_identical_over_schedules_arenas_threads_chunks_and_vtcm(
    store_path: Path, resident: dict[str, PrefillResult], profile: str, options: dict[str, Any]
) -> None:
    found = prefill(store_path, profile=profile, check_hazards=True, **options)
    assert found.output.tobytes() == resident[profile].output.tobytes()
    assert (found.lane, found.profile, found.steps) == ("exact", profile, None)


def test_profiles_differ_from_each_other_and_hardly_from_the_host(
    store_path: Path, resident: dict[str, PrefillResult]
) -> None:
    with PrefillEngine.open(store_path) as engine:
        host = engine.prefill(TOKENS, positions="all").output
    outputs = {name: result.output for name, result in resident.items()}
    assert len({o.tobytes() for o in outputs.values()}) == 3  # v79 and v81 compute what v75 does
    assert all(np.abs(o - host).max() < 0.02 * np.abs(host).max() for o in outputs.values())
    assert all((o != host).any() for o in outputs.values())


def test_the_default_profile_is_said(store_path: Path) -> None:
    result = prefill(store_path)
    assert result.profile == "hmx_v75_g8" and result.trace.provenance["numerics_profile"] == "hmx_v75_g8"


def test_steps_are_recorded_anew_for_each_request(store_path: Path) -> None:
    with PrefillEngine.open(store_path, executor="exact", record_steps=True, group_size=3) as engine:
        first, second = engine.prefill(TOKENS), engine.prefill(TOKENS)
    assert first.steps is not None and second.steps is not None
    assert first.steps.spans == second.steps.spans
    assert {span.clock for span in first.steps.spans} == {"order"}
    assert {span.clock for span in first.trace.spans} == {"host"}
    assert first.steps.provenance["kind"] == "steps in order, without time"
    rows = sum(span.rows or 0 for span in first.steps.select(name="gather"))
    assert rows == len(TOKENS) * SPEC.router.top_k * SPEC.layers  # every route gathered once
    groups = {(span.layer, span.group) for span in first.trace.select("expert")}
    assert {(span.layer, span.group) for span in first.steps.spans} == groups
    banks = {(span.layer, span.group): span.bank for span in first.trace.select("expert")}
    assert all(span.bank == banks[span.layer, span.group] for span in first.steps.spans)


def test_recorded_steps_have_their_place_in_the_memory_plan(store_path: Path) -> None:
    store, demand, before = Store(store_path), Demand(len(TOKENS), 1, "logits"), Beforehand(0, 0)
    for more in ({}, {"chunk_tokens": 9, "route_capacity": 7, "vtcm_bytes": 170_000}):
        given: dict[str, Any] = {"executor": "exact", **more}
        plans = [
            plan_memory(store, EngineSettings(**given, record_steps=on).complete(store), demand, before, 3)
            for on in (False, True)
        ]
        with PrefillEngine.open(store, record_steps=True, **given) as engine:
            steps = engine.prefill(TOKENS).steps
        assert steps is not None and plans[1].reserve - plans[0].reserve >= SPAN_BYTES * len(steps.spans)


def test_kernels_take_what_the_plan_says(store_path: Path) -> None:
    store = Store(store_path)
    with PrefillEngine.open(store, executor="exact") as engine:
        plan = engine.prepare(len(TOKENS))
        result = engine.prefill(TOKENS)
    assert result.memory["kernels"] == plan.kernels


def test_stores_of_another_layout_are_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = synthetic_store(tmp_path, "f32")
    for name in ("open_kernels", "Holdings"):
        monkeypatch.setattr(engine_module, name, lambda *_: pytest.fail("too late"))
    with pytest.raises(EStreamError, match="reads records in q4-32x32, not f32: pack the model with --quant q4_0"):
        PrefillEngine.open(store, executor="exact")


def test_traces_and_results_say_what_the_steps_ran_in(store_path: Path) -> None:
    result = prefill(store_path, record_steps=True, profile="hmx_v73_g4", vtcm_bytes=170_000, route_capacity=7)
    plan = plan_tiles(SPEC.hidden, SPEC.ffn, 7, 170_000)
    said = {"numerics_profile": "hmx_v73_g4", "vtcm_bytes": 170_000, "vtcm_used_bytes": plan.used_bytes}
    said |= {"tile_rows": plan.rows, "ffn_panel_columns": plan.ffn_columns, "hidden_panel_columns": plan.hidden_columns}
    assert result.steps is not None
    for provenance in (result.steps.provenance, result.trace.provenance):
        assert said.items() <= provenance.items()
    assert result.to_json()["tile_plan"].items() <= said.items() and len(result.tile_plan) == 5
    with PrefillEngine.open(store_path) as engine:
        host = engine.prefill(TOKENS)
    assert host.tile_plan == {} and not said.keys() - {"numerics_profile"} & host.trace.provenance.keys()


def test_the_tiles_that_are_said_are_those_that_run(store_path: Path) -> None:
    """Panels of a gate and up fetch, and rows of a gather, as recorded."""
    result = prefill(store_path, record_steps=True, vtcm_bytes=170_000)
    assert result.steps is not None
    plan, down = result.tile_plan, {s.tile for s in result.steps.select(name="fetch down")}
    pairs = {s.tile for s in result.steps.select(name="fetch gate and up")}
    assert (len(pairs), len(down)) == (
        -(-SPEC.ffn // int(plan["ffn_panel_columns"])),
        -(-SPEC.hidden // int(plan["hidden_panel_columns"])),
    )
    assert max(s.rows or 0 for s in result.steps.select(name="gather")) <= int(plan["tile_rows"])


def test_vtcm_that_is_too_small_is_refused(store_path: Path) -> None:
    """By the store's own expert, whatever ran before in this process."""
    with pytest.raises(EStreamError, match="an expert of H=64, F=32 .* region silu takes"):
        prefill(store_path, vtcm_bytes=100_000)
    for none in (0, -5):
        with pytest.raises(EStreamError, match="vtcm bytes must be at least 1"):
            prefill(store_path, vtcm_bytes=none)


@pytest.mark.parametrize("extra", [{"profile": "hmx_v73_g4"}, {"vtcm_bytes": 1 << 20}, {"record_steps": True}])
def test_an_executor_of_ones_own_says_all_of_that_itself(store_path: Path, extra: dict[str, Any]) -> None:
    with pytest.raises(EStreamError, match="leave them out"):
        PrefillEngine.open(store_path, executor=exact("ieee_fp32"), **extra)


def test_two_engines_with_one_executor_keep_their_steps_apart(store_path: Path) -> None:
    shared = exact(steps=True)
    with PrefillEngine.open(store_path, executor=shared) as one, PrefillEngine.open(store_path, executor=shared) as two:
        alone = one.prefill(TOKENS).steps
        with ThreadPoolExecutor(2) as pool:
            together = [future.result().steps for future in [pool.submit(e.prefill, TOKENS) for e in (one, two)]]
    assert alone is not None and all(steps is not None and steps.spans == alone.spans for steps in together)
