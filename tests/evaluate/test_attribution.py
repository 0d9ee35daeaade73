"""Attribution on a small store, and faults that it tells."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.evaluate.attribution import Attribution, Row, attribute
from estream_lab.evaluate.bits import Window
from estream_lab.evaluate.cases import EXACT, FP16, OFF, SCATTER, Case, cases, device
from estream_lab.evaluate.outliers import open_variant
from estream_lab.evaluate.variants import Variant
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


def test_every_case_has_its_row_and_what_is_compared_with_itself_differs_in_nothing(
    store: Store, found: Attribution
) -> None:
    assert [(row.group, row.name) for row in found.rows] == [(case.group, case.name) for case in FOUND]
    assert (found.tokens, found.routes_per_layer, found.windows) == (48, 96, 2)
    (same,) = attribute(store, random_windows(), [Case("alone", "nothing", OFF)]).rows
    assert same.layer_error == (0.0,) * SPEC.layers and same.layer_flips == (0,) * SPEC.layers
    assert (same.divergence_bits, same.delta_bits_per_byte, same.standard_error, same.logits_error) == (0,) * 4


def row(found: Attribution, group: str, name: str) -> Row:
    return next(each for each in found.rows if (each.group, each.name) == (group, name))


def test_every_step_shows_in_every_layer(found: Attribution) -> None:
    for each in found.rows:
        assert each.layer_flips[0] == 0  # nothing comes before the first router
        if each.name.startswith("accumulator"):  # of so few products a sum may be stored as the same code
            continue
        if each.name == "scatter reversed":  # a sum of two has no order
            assert each.layer_error == (0.0,) * SPEC.layers
        else:
            assert min(each.layer_error) > 0, each.name
    quantised, whole = row(found, "alone", "Q4_0 weights"), row(found, "device", "hmx_v75_g8")
    assert min(quantised.layer_error) > 50 * max(whole.layer_error)
    assert quantised.divergence_bits > 100 * whole.divergence_bits > 0
    assert 1e-5 < max(whole.layer_error) < 1e-2
    assert row(found, "cumulative", "+ fp32 scatter: the device").layer_error == whole.layer_error


@pytest.mark.parametrize("top_k", [2, 3, 8])
def test_the_order_of_the_scatter_shows_from_three_experts_a_token_on(tmp_path: Path, top_k: int) -> None:
    store = open_variant(SHIPPED, tmp_path, Variant(top_k=top_k))
    found = attribute(store, random_windows(length=16), SCATTER)
    assert (found.top_k, found.routes_per_layer) == (top_k, 32 * top_k)
    summed, reversed_ = found.rows
    assert min(summed.layer_error) > 0
    if top_k == 2:
        assert max(reversed_.layer_error) == reversed_.logits_error == reversed_.divergence_bits == 0
    else:
        assert 0 < min(reversed_.layer_error) <= max(reversed_.layer_error) < 2**-20
        assert reversed_.logits_error > 0


def test_the_figures_of_a_row_are_those_of_two_engines(store: Store, found: Attribution) -> None:
    settings = {"group_size": SPEC.experts, "resident": True}
    logits, costs, experts = [], [], []
    for on in (EXACT, OFF):
        with PrefillEngine.open(store, executor=switched(on), **settings) as engine:
            runs = [engine.prefill(window.ids[:-1], positions="all") for window in random_windows()]
            z = np.concatenate([each.output.astype(np.float64) for each in runs])  # (48, V)
        targets = np.concatenate([window.ids[1:] for window in random_windows()])
        p = np.exp(z) / np.exp(z).sum(-1, keepdims=True)
        logits.append(z)
        costs.append(float(-np.log2(p[np.arange(48), targets]).mean()))  # a token has a byte
        routes = [each.routes for each in runs]
        experts.append([[set(zip(r.token, r.expert, strict=True)) for r in run.values()] for run in routes])
    found_row = row(found, "alone", "Q4_0 weights")
    flips = np.sum([[len(a - b) for a, b in zip(*pair, strict=True)] for pair in zip(*experts, strict=True)], axis=0)
    assert found_row.layer_flips == tuple(flips) and sum(flips) > 0
    assert found_row.flip_share == sum(flips) / (96 * SPEC.layers)
    error = np.linalg.norm(logits[1] - logits[0]) / np.linalg.norm(logits[0])
    assert found_row.logits_error == pytest.approx(error, rel=1e-9)
    assert found_row.delta_bits_per_byte == pytest.approx(costs[1] - costs[0], rel=1e-6)
    assert found.bits_per_byte == pytest.approx(costs[1], rel=1e-9)
    assert found_row.perplexity_percent == pytest.approx(100 * (2 ** (costs[1] - costs[0]) - 1), rel=1e-6)


def test_the_same_windows_give_the_same_figures_whatever_the_threads(store: Store, found: Attribution) -> None:
    assert attribute(store, random_windows(), FOUND, threads=2) == found
    json.dumps(found.to_json(), allow_nan=False)


def test_a_switch_without_effect_is_told(store: Store, found: Attribution, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: fp16 operands that stay float64."""
    monkeypatch.setattr("estream_lab.kernels.exact.switches.to_half", lambda x: x)
    case = next(case for case in FOUND if case.name == "fp16 operands")
    (planted,) = attribute(store, random_windows(), [case]).rows
    assert planted.layer_error == (0.0,) * SPEC.layers != row(found, "alone", case.name).layer_error


def test_what_can_not_be_attributed_is_refused(tmp_path: Path, store: Store) -> None:
    with pytest.raises(EStreamError, match="quantised already"):
        attribute(Store(synthetic_store(tmp_path)), random_windows(), FOUND)
    with pytest.raises(EStreamError, match="needs two tokens"):
        attribute(store, random_windows(1, 1), FOUND)


def test_accumulators_are_compared_under_operands_that_they_take() -> None:
    for case in FOUND:
        if case.name.startswith("accumulator"):
            assert case.reference == FP16 and case.switches == replace(FP16, accumulator=case.name.split()[1])
    assert FOUND[-1].switches == device("hmx_v75_g8")
