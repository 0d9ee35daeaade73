"""Whole models with activations in bf16 or int8: the same bits whatever streams, near the fp32 kernels' results."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine, PrefillResult
from estream_lab.errors import EStreamError
from tests.stores import SPEC, synthetic_store

TOKENS = np.random.default_rng(7).integers(0, SPEC.vocab, 33)
PROFILES = pytest.mark.parametrize("profile", ["host-bf16", "host-int8"])


def prefill(store: Path, **options: Any) -> PrefillResult:
    with PrefillEngine.open(store, poison=True, **options) as engine:
        return engine.prefill(TOKENS, positions="all")


@pytest.fixture(scope="module")
def resident(store_path: Path) -> Callable[[str], PrefillResult]:
    return cache(lambda profile: prefill(store_path, profile=profile, resident=True))


@PROFILES
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
    store_path: Path, resident: Callable[[str], PrefillResult], profile: str, options: dict[str, Any]
) -> None:
    found = prefill(store_path, profile=profile, check_hazards=True, **options)
    assert found.output.tobytes() == resident(profile).output.tobytes()
    assert (found.lane, found.profile) == ("host", profile)
    assert found.trace.provenance["numerics_profile"] == profile


@pytest.mark.parametrize(("profile", "error"), [("host-bf16", 0.004), ("host-int8", 0.02)])
def test_logits_are_off_fp32_by_what_their_activations_cost(
    store_path: Path, resident: Callable[[str], PrefillResult], profile: str, error: float
) -> None:
    plain = prefill(store_path, profile="host-f32").output
    assert 1e-5 < np.linalg.norm(resident(profile).output - plain) / np.linalg.norm(plain) < error


@PROFILES
def test_a_store_of_fp32_experts_is_refused(tmp_path: Path, profile: str) -> None:
    with pytest.raises(EStreamError, match=f"{profile} reads records of layout q4-32x32, not f32"):
        PrefillEngine.open(synthetic_store(tmp_path, "f32"), profile=profile)
