"""The models' room against transformers (tests/goldens), with plain NumPy experts."""

import hashlib
import sys
from functools import cache

import numpy as np
import pytest

from estream_lab.models import Decoder, ExpertSource

from ..golden_compare import CHECKPOINTS, Golden, compare
from .resident import Resident, read_experts

TOLERANCE = {"f32": 1e-4, "q4_0": 2e-3}
MODELS = ("random_olmoe", "tiny_moe")


@cache
def resident(model: str, mode: str) -> Resident:
    with ExpertSource.open(CHECKPOINTS[model]) as source:
        return Resident(source.spec, Decoder(source.spec, source.dense), read_experts(source, mode))


@pytest.mark.parametrize("mode", sorted(TOLERANCE))
@pytest.mark.parametrize("model", MODELS)
def test_logits_and_routes_are_those_of_transformers(model: str, mode: str) -> None:
    golden = Golden.load(model, mode)
    engine = resident(model, mode)
    found = compare(golden, engine.forward)
    sys.stdout.write(f"{model} {mode}: {found}\n")
    assert found.max_abs_error < TOLERANCE[mode]
    assert found.max_weight_error < TOLERANCE[mode]
    assert found.route_flips == found.missing_routes == 0
    tokens = sum(len(prompt.tokens) for prompt in golden.prompts)
    assert found.routes == tokens * engine.spec.router.top_k * engine.spec.layers


@pytest.mark.parametrize("mode", sorted(TOLERANCE))
@pytest.mark.parametrize("model", MODELS)
def test_goldens_are_of_the_checkpoint_that_is_here(model: str, mode: str) -> None:
    """When this fails, the checkpoint has changed: run oracle/build_goldens.py."""
    recorded = Golden.load(model, mode).provenance["checkpoint_sha256"]
    assert "config.json" in recorded
    found = {name: hashlib.sha256((CHECKPOINTS[model] / name).read_bytes()).hexdigest() for name in recorded}
    assert found == recorded


@pytest.mark.parametrize("model", MODELS)
def test_goldens_ask_enough(model: str) -> None:
    prompts = Golden.load(model, "f32").prompts
    lengths = [len(prompt.tokens) for prompt in prompts]
    assert len(prompts) >= 12
    assert {prompt.domain for prompt in prompts} == {"text", "code"}
    assert min(lengths) == 1
    assert {prompt.domain for prompt in prompts if len(prompt.tokens) == 1024} == {"text", "code"}
    for prompt in prompts:
        assert prompt.positions[-1] == len(prompt.tokens) - 1
        assert len(prompt.positions) >= min(len(prompt.tokens), 24)
        assert (prompt.weights.sum(-1) < 1).all()  # OLMoE doesn't renormalise


@pytest.mark.parametrize("chunk", [1, 7, 32, 50])
def test_chunks_do_not_change_a_bit(chunk: int) -> None:
    model = resident("random_olmoe", "f32")
    tokens = next(prompt.tokens for prompt in Golden.load("random_olmoe", "f32").prompts if len(prompt.tokens) == 100)
    whole_logits, whole_routes = model.forward(tokens)
    logits, routes = model.forward(tokens, chunk)
    assert np.array_equal(logits, whole_logits)
    assert routes == whole_routes
