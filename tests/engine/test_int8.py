"""Whole models with activations in int8: the same bits whatever streams, near the fp32 kernels' results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine, PrefillResult
from estream_lab.errors import EStreamError
from tests.stores import SPEC, synthetic_store

TOKENS = np.random.default_rng(7).integers(0, SPEC.vocab, 33)


def prefill(store: Path, **options: Any) -> PrefillResult:
    with PrefillEngine.open(store, poison=True, **options) as engine:
        return engine.prefill(TOKENS, positions="all")


@pytest.fixture(scope="module")
def resident(store_path: Path) -> PrefillResult:
    return prefill(store_path, profile="host-int8", resident=True)


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": "on-demand", "group_size": 3, "banks": 1},
        {"schedule": "after-routing", "group_size": 1, "banks": 4, "route_capacity": 7},
        {"schedule": "early", "group_size": 4, "banks": 2, "chunk_tokens": 9, "threads": 1},
        {"schedule": "early", "carry_over": True, "group_size": 2, "banks": 3},
    ],
)
def test_logits_are_bit_identical_over_schedules_arenas_threads_and_chunks(
    store_path: Path, resident: PrefillResult, options: dict[str, Any]
) -> None:
    found = prefill(store_path, profile="host-int8", check_hazards=True, **options)
    assert found.output.tobytes() == resident.output.tobytes()
    assert (found.lane, found.profile) == ("host", "host-int8")
    assert found.trace.provenance["numerics_profile"] == "host-int8"


def test_logits_are_off_fp32_by_what_int8_costs(store_path: Path, resident: PrefillResult) -> None:
    plain = prefill(store_path, profile="host-f32").output
    assert 1e-5 < np.linalg.norm(resident.output - plain) / np.linalg.norm(plain) < 0.02


def test_a_store_of_fp32_experts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match="host-int8 reads records of layout q4-32x32, not f32"):
        PrefillEngine.open(synthetic_store(tmp_path, "f32"), profile="host-int8")
