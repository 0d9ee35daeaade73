"""A prompt of 16 tokens reads what its routes need, once, and at most B groups a layer that turn out unneeded."""

import itertools
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine, PrefillResult
from estream_lab.experts.order import ORDERS, ExpertOrder
from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.streaming import Store
from estream_lab.streaming.pack import pack, pack_synthetic
from tests.golden_compare import TINY_MOE

TOKENS, SEEDS = 16, 8
MANY = synthetic_spec(hidden=64, ffn=32, layers=4, experts=60, top_k=4, heads=2, vocab=96, context=256)
HELDOUT = TINY_MOE.parent / "heldout"
SCHEDULES: dict[str, dict[str, Any]] = {
    "on-demand": {"schedule": "on-demand"},
    "after-routing": {"schedule": "after-routing"},
    "early": {"schedule": "early"},
    "early, carried over": {"schedule": "early", "carry_over": True},
}
SHAPES = [(1, 1, 1), (1, 5, 2), (2, 3, 2), (3, 2, 2), (7, 4, 3), (16, 1, 1)]  # (G, B, Q)


def prompts(model: str, count: int, length: int) -> list[np.ndarray]:
    """Seeded cuts of the held-out text and code, or made-up tokens for random weights."""
    found = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        content = np.frombuffer((HELDOUT / ("text.txt", "code.txt")[seed % 2]).read_bytes(), np.uint8)
        start = int(rng.integers(len(content) - length))
        cut = content[start : start + length].astype(np.int32)
        found.append(cut if model == "tiny_moe" else rng.integers(0, MANY.vocab, length).astype(np.int32))
    return found


@pytest.fixture(scope="module", params=list(itertools.product(("tiny_moe", "many experts"), ORDERS)), ids="-".join)
def ordered(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Store]:
    """A model's name and its store in one order, by the routes of longer prompts than those of the test."""
    (model, name), folder = request.param, tmp_path_factory.mktemp("short")

    def store(path: Path, order: ExpertOrder | None) -> Store:
        made = (
            pack(TINY_MOE, path, order=order, progress=False)
            if model == "tiny_moe"
            else pack_synthetic(SyntheticSource(MANY), path, order=order, progress=False)
        )
        return Store(made.path)

    by_id = store(folder / "id.estream", None)
    if name == "id":
        return model, by_id
    with PrefillEngine.open(by_id) as engine:
        routes = engine.prefill(prompts(model, 12, 200)[11]).routes
    spec = by_id.spec
    order = ExpertOrder.of(name, routes, spec.layers, spec.experts, spec.router.top_k, "a prompt")
    return model, store(folder / "m.estream", order)


def check(store: Store, result: PrefillResult, group_size: int, banks: int) -> int:
    """Hold a run to its routes; returns how many groups were read in vain."""
    reads = Counter((span.layer, span.group) for span in result.trace.select("storage"))
    in_vain = needed_bytes = 0
    for layer, records in enumerate(store.layers):
        place = {int(expert): at for at, expert in enumerate(records.order)}
        needed = {place[int(expert)] // group_size for expert in result.routes[layer].expert}
        read = {group: times for (of, group), times in reads.items() if of == layer}
        assert {group: read.pop(group) for group in needed} == dict.fromkeys(needed, 1)
        assert set(read.values()) <= {1} and len(read) <= banks
        in_vain += len(read)
        needed_bytes += sum(min(group_size, len(place) - g * group_size) * records.record.stride for g in needed)
    spans = sum(span.bytes or 0 for span in result.trace.select("storage"))
    assert result.bytes_read == spans == result.bytes_needed + result.bytes_speculative
    assert result.bytes_needed == needed_bytes
    return in_vain


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_short_prompts_read_what_their_routes_need(ordered: tuple[str, Store], schedule: str) -> None:
    model, store = ordered
    in_vain = read = 0
    outputs: dict[int, set[str]] = {}
    for group_size, banks, queue in SHAPES:
        settings = SCHEDULES[schedule] | {"group_size": group_size, "banks": banks, "queue_depth": queue}
        with PrefillEngine.open(store, poison=True, check_hazards=True, **settings) as engine:
            for seed, tokens in enumerate(prompts(model, SEEDS, TOKENS)):
                result = engine.prefill(tokens)
                in_vain += check(store, result, group_size, result.banks)
                read += len(result.trace.select("storage"))
                outputs.setdefault(seed, set()).add(result.logits_sha256)
    assert {len(found) for found in outputs.values()} == {1}  # no arena changes a bit
    assert (in_vain > 0) == schedule.startswith("early")  # else nothing was tried
    sys.stdout.write(f"{model}, {schedule}: {read} groups read for {SEEDS * len(SHAPES)} prompts, {in_vain} in vain\n")
