"""Errors on equal inputs belong to the layer whose experts were called."""

from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.evaluate.bits import Window
from estream_lab.evaluate.cases import EXACT, FP16, OFF, Case
from estream_lab.evaluate.local import LocalErrors
from estream_lab.evaluate.runs import run
from estream_lab.experts import Arena, Binding, RecordClass
from estream_lab.experts.switched import arena_weights, switched, watched
from estream_lab.kernels.exact.switches import Switches, switched_bank
from estream_lab.streaming import Store
from tests.stores import SPEC, synthetic_store

WINDOWS = (Window(np.arange(17, dtype=np.int32), 16.0),)


def test_a_call_that_is_missed_is_told(tmp_path: Path) -> None:
    """Planted: the second layer's call goes by unseen; its successor's error would be taken for its own."""
    local, calls = LocalErrors([Case("alone", "Q4_0 weights", OFF, EXACT)], SPEC.layers), []

    def see(*args: Any) -> None:
        if local._calls is None:  # a kernel is being warmed up, if none was before
            return
        calls.append(args)
        if len(calls) != 2:
            local.see(*args)

    with pytest.raises(RuntimeError, match="layer 2 where layer 1"):
        store = Store(synthetic_store(tmp_path, "f32"))
        run(store, WINDOWS, watched(switched(OFF), see), begin=local.begin)


def test_a_case_against_itself_has_no_error_in_any_layer(tmp_path: Path) -> None:
    local = LocalErrors([Case("alone", "nothing", OFF), Case("alone", "Q4_0 weights", OFF, EXACT)], SPEC.layers)
    run(Store(synthetic_store(tmp_path, "f32")), WINDOWS, watched(switched(OFF), local.see), begin=local.begin)
    nothing, quantised = local.errors
    assert nothing.tolist() == [0.0] * SPEC.layers and quantised.min() > 1e-3


def output(x: np.ndarray, binding: Binding, arena: Arena, record: RecordClass, on: Switches) -> np.ndarray:
    y = np.zeros_like(x)
    experts = [arena_weights(arena, record, slot) for slot in binding.slot.tolist()]
    switched_bank(x, y, binding.offsets, binding.token, binding.weight, experts, on)
    return y.astype(np.float64)


def test_an_error_is_the_differences_norm_over_that_of_the_layer_with_all_steps_off(tmp_path: Path) -> None:
    """Layers whose outputs are larger from one to the next, and two windows of different sizes."""
    found = [
        Case("alone", "Q4_0 weights", OFF, EXACT),
        Case("alone", "accumulator", replace(FP16, accumulator="ieee_fp32"), FP16),
    ]
    local, turns = LocalErrors(found, SPEC.layers), cycle(range(SPEC.layers))
    made: list[list[list[np.ndarray]]] = [[] for _ in range(SPEC.layers)]  # of each layer, by window

    def see(x: np.ndarray, *rest: Any) -> None:
        if local._calls is None:  # a kernel is being warmed up, if none was before
            return
        layer = next(turns)
        scaled = x * np.float32(3**layer)
        local.see(scaled, *rest)
        made[layer].append([output(scaled, *rest, on) for on in (OFF, EXACT, found[1].switches, FP16)])

    windows = (*WINDOWS, Window(np.arange(40, 65, dtype=np.int32), 24.0))
    run(Store(synthetic_store(tmp_path, "f32")), windows, watched(switched(OFF), see), begin=local.begin)
    sizes = []
    for layer, seen in enumerate(made):
        assert len(seen) == 2
        off, exact, summed, stored = (np.concatenate(each) for each in zip(*seen, strict=True))  # (40, H)
        sizes.append(np.linalg.norm(off))
        expected = [np.linalg.norm(off - exact) / sizes[-1], np.linalg.norm(summed - stored) / sizes[-1]]
        assert [errors[layer] for errors in local.errors] == pytest.approx(expected, rel=1e-12, abs=0)
    assert min(np.diff(np.log2(sizes))) > 1
