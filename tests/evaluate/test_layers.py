"""Steps that are on in one layer alone."""

from pathlib import Path

import numpy as np
import pytest

from estream_lab.evaluate.bits import Window
from estream_lab.evaluate.cases import EXACT, OFF, Case, device
from estream_lab.evaluate.layers import by_layer, layer_of, layerwise
from estream_lab.evaluate.runs import Run, change, run
from estream_lab.experts import Arena, Binding
from estream_lab.experts.switched import switched
from estream_lab.streaming import Store
from tests.stores import SPEC, synthetic_store

WINDOWS = tuple(
    Window(np.random.default_rng(seed).integers(0, SPEC.vocab, 25).astype(np.int32), 24.0) for seed in (3, 4)
)
WHOLE = device("hmx_v75_g8")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(synthetic_store(tmp_path_factory.mktemp("layers"), "f32"))


def same(one: Run, other: Run) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(one.logits, other.logits, strict=True))


def test_a_step_that_is_on_in_all_layers_is_on(store: Store) -> None:
    whole = run(store, WINDOWS, layerwise([WHOLE] * SPEC.layers))
    assert same(whole, run(store, WINDOWS, switched(WHOLE)))
    assert not same(whole, run(store, WINDOWS, layerwise([WHOLE] * (SPEC.layers - 1) + [OFF])))


def test_one_layers_step_moves_no_route_before_the_next(store: Store) -> None:
    found = by_layer(store, WINDOWS, [Case("alone", "Q4_0 weights", OFF, EXACT), Case("device", "all", WHOLE)])
    assert list(found) == ["Q4_0 weights", "all"]
    for changes in found.values():
        assert len(changes) == SPEC.layers
        for layer, each in enumerate(changes):
            assert each.divergence_bits > 0 and each.logits_error > 0
            assert each.layer_flips[: layer + 1] == (0,) * (layer + 1)
    assert sum(found["Q4_0 weights"][0].layer_flips) > 0


def test_each_change_is_that_of_a_run_with_that_layer_on(store: Store) -> None:
    (changes,) = by_layer(store, WINDOWS, [Case("device", "all", WHOLE)]).values()
    second = run(store, WINDOWS, layerwise([OFF, WHOLE, OFF]))
    assert changes[1] == change(second, run(store, WINDOWS, switched(OFF)), WINDOWS) != changes[0]


def test_a_call_over_several_banks_has_no_layer(tmp_path: Path) -> None:
    none = np.zeros(0, np.int32)
    binding = Binding(np.zeros(3, np.int64), none, none, none.astype(np.float32), np.array([3, 4], np.int32))
    assert layer_of(binding, Arena(2, 5, 4096)) == 0
    with pytest.raises(RuntimeError, match=r"banks \[0, 1\]"):
        layer_of(binding, Arena(2, 4, 4096))
