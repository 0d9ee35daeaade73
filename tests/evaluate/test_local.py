"""Errors on equal inputs belong to the layer whose experts were called."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.evaluate.bits import Window
from estream_lab.evaluate.cases import EXACT, OFF, Case
from estream_lab.evaluate.local import LocalErrors
from estream_lab.evaluate.runs import run
from estream_lab.experts.switched import switched, watched
from estream_lab.streaming import Store
from tests.stores import SPEC, synthetic_store

WINDOWS = (Window(np.arange(17, dtype=np.int32), 16.0),)


def test_a_call_that_is_missed_is_told(tmp_path: Path) -> None:
    """Planted: the second layer's call goes by unseen; its successor's error would be taken for its own."""
    local, calls = LocalErrors([Case("alone", "Q4_0 weights", OFF, EXACT)], SPEC.layers), []

    def see(*args: Any) -> None:
        calls.append(args)
        if len(calls) != 3:  # the first warms the kernel up
            local.see(*args)

    with pytest.raises(RuntimeError, match="layer 2 where layer 1"):
        store = Store(synthetic_store(tmp_path, "f32"))
        run(store, WINDOWS, watched(switched(OFF), see), begin=local.begin)


def test_a_case_against_itself_has_no_error_in_any_layer(tmp_path: Path) -> None:
    local = LocalErrors([Case("alone", "nothing", OFF), Case("alone", "Q4_0 weights", OFF, EXACT)], SPEC.layers)
    run(Store(synthetic_store(tmp_path, "f32")), WINDOWS, watched(switched(OFF), local.see), begin=local.begin)
    nothing, quantised = local.errors
    assert nothing.tolist() == [0.0] * SPEC.layers and quantised.min() > 1e-3
