"""The whole path, packed store to logits through a small arena, against what transformers computed in float32."""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.routing import Routes
from estream_lab.streaming.pack import pack
from tests.golden_compare import CHECKPOINTS, Golden, compare

# Logits of a standard deviation of about 3: the f32 records hold the checkpoint's own weights; Q4_0's are dequantised
# alike on both sides, the golden's by an independent implementation.
BOUNDS = {"f32": 1e-4, "q4_0": 2e-3}


@pytest.mark.parametrize("mode", BOUNDS)
@pytest.mark.parametrize("model", CHECKPOINTS)
def test_streaming_prefill_agrees_with_transformers(model: str, mode: str, tmp_path: Path) -> None:
    golden = Golden.load(model, mode)
    store = pack(golden.checkpoint, tmp_path / "m.estream", quant=mode, progress=False).path
    with PrefillEngine.open(store, profile="host-f32", group_size=3, banks=2, poison=True) as engine:

        def forward(tokens: np.ndarray) -> tuple[np.ndarray, Mapping[int, Routes]]:
            result = engine.prefill(tokens, positions="all")
            return result.output, result.routes

        found = compare(golden, forward)
    sys.stdout.write(f"{model} {mode}: {found}\n")
    assert found.max_abs_error < BOUNDS[mode]
    assert found.route_flips == 0
    assert found.missing_routes == 0
    assert found.ties <= 4  # counted, not hidden: near ties may fall either way
    assert found.routes > 10_000
