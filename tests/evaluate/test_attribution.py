"""Bits per byte, attribution on a small store, variants of the shipped model, and faults that they tell."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.evaluate import attribution
from estream_lab.evaluate.attribution import Attribution, attribute
from estream_lab.evaluate.bits import Window, bits_per_byte, windows
from estream_lab.evaluate.cases import EXACT, FP16, OFF, Case, cases, device
from estream_lab.evaluate.outliers import open_variant
from estream_lab.evaluate.variants import Variant, write_variant
from estream_lab.experts.switched import switched
from estream_lab.streaming import Store
from tests.stores import SPEC, give_tokenizer, synthetic_store

SHIPPED = Path(__file__).parents[2] / "data" / "tiny_moe" / "checkpoint"
FOUND = cases(profiles=("ieee_fp32", "hmx_v75_g8"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(give_tokenizer(synthetic_store(tmp_path_factory.mktemp("attribution"), "f32")))


def random_windows(count: int = 2, length: int = 24) -> tuple[Window, ...]:
    rng = np.random.default_rng(2)
    return tuple(Window(rng.integers(0, SPEC.vocab, length + 1).astype(np.int32), length) for _ in range(count))


@pytest.fixture(scope="module")
def found(store: Store) -> Attribution:
    return attribute(store, random_windows(), FOUND)


def test_bits_per_byte_are_the_mean_cost_of_a_byte(store: Store) -> None:
    with PrefillEngine.open(store) as engine:
        assert engine.tokenizer is not None
        text = "ab, xyz and " * 8  # "ab" is one token of two bytes
        cut = windows(engine.tokenizer, text, 20, 3)
        assert [len(window) for window in cut] == [20, 20, 20]
        np.testing.assert_array_equal(cut[0].ids[-1], cut[1].ids[0])
        found = bits_per_byte(engine, cut)
        cost = 0.0
        for window in cut:
            logits = engine.prefill(window.ids[:-1], positions="all").output.astype(np.float64)
            p = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
            cost -= sum(math.log2(p[i, token]) for i, token in enumerate(window.ids[1:]))
    assert found.tokens == 60
    assert found.bits_per_token == pytest.approx(cost / 60, rel=1e-6)
    assert found.bits_per_byte == pytest.approx(cost / 60 * 11 / 12, rel=1e-6)  # 88 tokens of 96 bytes


def test_windows_that_do_not_fit_are_refused(store: Store) -> None:
    with PrefillEngine.open(store) as engine:
        assert engine.tokenizer is not None
        for length, count in ((200, 1), (10, 0), (10, 11), (0, 1)):
            with pytest.raises(EStreamError, match="don't fit"):
                windows(engine.tokenizer, "0123456789" * 10, length, count)
        with pytest.raises(EStreamError, match="no window"):
            bits_per_byte(engine, [])


def test_every_case_has_its_row_and_what_is_compared_with_itself_differs_in_nothing(
    store: Store, found: Attribution
) -> None:
    assert [(row.group, row.name) for row in found.rows] == [(case.group, case.name) for case in FOUND]
    assert (found.tokens, found.routes_per_layer, found.windows) == (48, 96, 2)
    (same,) = attribute(store, random_windows(), [Case("alone", "nothing", OFF)]).rows
    assert same.layer_error == (0.0,) * SPEC.layers and same.layer_flips == (0,) * SPEC.layers
    assert (same.divergence_bits, same.delta_bits_per_byte, same.standard_error) == (0, 0, 0)


def test_every_step_shows_and_the_scatter_of_two_experts_has_no_order(found: Attribution) -> None:
    for row in found.rows:
        if not row.name.startswith("accumulator"):  # of so few products a sum may be stored as the same code
            assert all(error > 0 for error in row.layer_error) is (row.name != "scatter reversed"), row.name
        assert row.layer_flips[0] == 0  # nothing comes before the first router
    quantised, whole = found.row("alone", "Q4_0 weights"), found.row("device", "hmx_v75_g8")
    assert min(quantised.layer_error) > 50 * max(whole.layer_error)
    assert quantised.divergence_bits > 100 * whole.divergence_bits > 0
    assert 1e-5 < max(whole.layer_error) < 1e-2
    assert found.row("cumulative", "+ fp32 scatter: the device").layer_error == whole.layer_error


def test_the_figures_of_a_row_are_those_of_two_engines(store: Store, found: Attribution) -> None:
    settings = {"group_size": SPEC.experts, "resident": True}
    costs, experts = [], []
    for on in (EXACT, OFF):
        with PrefillEngine.open(store, executor=switched(on), **settings) as engine:
            costs.append(bits_per_byte(engine, random_windows()).bits_per_byte)
            runs = [engine.prefill(window.ids[:-1]).routes for window in random_windows()]
        experts.append([[set(zip(r.token, r.expert, strict=True)) for r in run.values()] for run in runs])
    row = found.row("alone", "Q4_0 weights")
    flips = np.sum([[len(a - b) for a, b in zip(*pair, strict=True)] for pair in zip(*experts, strict=True)], axis=0)
    assert row.layer_flips == tuple(flips) and sum(flips) > 0
    assert row.flip_share == sum(flips) / (96 * SPEC.layers)
    assert row.delta_bits_per_byte == pytest.approx(costs[1] - costs[0], abs=1e-6)
    assert found.bits_per_byte == pytest.approx(costs[1], rel=1e-6)
    assert row.perplexity_percent == pytest.approx(100 * (2 ** (costs[1] - costs[0]) - 1), abs=1e-3)


def test_the_same_windows_give_the_same_figures_whatever_the_threads(store: Store, found: Attribution) -> None:
    assert attribute(store, random_windows(), FOUND, threads=2) == found
    json.dumps(found.to_json(), allow_nan=False)


def test_a_switch_without_effect_is_told(store: Store, found: Attribution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: fp16 operands that stay float64."""
    monkeypatch.setattr("estream_lab.kernels.exact.switches.to_half", lambda x: x)
    case = next(case for case in FOUND if case.name == "fp16 operands")
    (row,) = attribute(store, random_windows(), [case]).rows
    assert row.layer_error == (0.0,) * SPEC.layers != found.row("alone", case.name).layer_error


def test_routes_that_swap_places_are_no_flips() -> None:
    one = np.array([[[1, 2], [3, 4]]], np.int32)  # (L, n, k)
    other = np.array([[[2, 1], [3, 5]]], np.int32)
    assert attribution._flips(one, other).tolist() == [1]


def test_what_can_not_be_attributed_is_refused(tmp_path: Path, store: Store) -> None:
    with pytest.raises(EStreamError, match="quantised already"):
        attribute(Store(synthetic_store(tmp_path)), random_windows(), FOUND)
    with pytest.raises(EStreamError, match="at least two windows"):
        attribute(store, random_windows(1), FOUND)


def test_accumulators_are_compared_under_operands_that_they_take() -> None:
    for case in FOUND:
        if case.name.startswith("accumulator"):
            assert case.reference == FP16 and case.switches == replace(FP16, accumulator=case.name.split()[1])
    assert FOUND[-1].switches == device("hmx_v75_g8")


def output(store: Store, on: object) -> bytes:
    with PrefillEngine.open(store, executor=switched(on)) as engine:  # type: ignore[arg-type]
        return engine.prefill(np.arange(32, dtype=np.int32) + 40, positions="all").output.tobytes()


def test_scaling_changes_no_bit_while_nothing_is_rounded_to_fp16(tmp_path: Path) -> None:
    plain = open_variant(SHIPPED, tmp_path, Variant())
    for variant in (Variant(swiglu=8), Variant(residual=12)):
        other = open_variant(SHIPPED, tmp_path, variant)
        assert output(other, EXACT) == output(plain, EXACT)
    assert output(other, FP16) != output(plain, FP16)


def test_a_renormalising_variant_differs_in_its_weights_alone(tmp_path: Path) -> None:
    plain, other = (open_variant(SHIPPED, tmp_path, Variant(renormalise=on)) for on in (False, True))
    assert other.spec == replace(plain.spec, router=replace(plain.spec.router, renormalise=True))
    routes = []
    for each in (plain, other):
        with PrefillEngine.open(each) as engine:
            routes.append(engine.prefill(np.arange(32) + 40).routes[0])
    np.testing.assert_array_equal(routes[0].expert, routes[1].expert)
    np.testing.assert_allclose(routes[1].weight.reshape(-1, 2).sum(axis=1), 1, rtol=1e-6)
    assert routes[0].weight.reshape(-1, 2).sum(axis=1).max() < 0.999


def test_variants_of_other_checkpoints_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match="exists already"):
        write_variant(SHIPPED, tmp_path, Variant())
    (tmp_path / "other").mkdir()
    for file in SHIPPED.iterdir():
        (tmp_path / "other" / file.name).write_bytes(file.read_bytes())
    config = json.loads((SHIPPED / "config.json").read_text()) | {"model_type": "mixtral"}
    (tmp_path / "other" / "config.json").write_text(json.dumps(config))
    with pytest.raises(EStreamError, match="no untied OLMoE checkpoint"):
        write_variant(tmp_path / "other", tmp_path / "new", Variant())
