"""Memory budgets over models, prompts, groups and banks: each run in a control group that counts page cache as well."""

import json
import sys
from pathlib import Path

import pytest

from estream_lab.cgroup import run_in_group
from estream_lab.cli.options import size
from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.streaming.pack import pack_synthetic
from tests.budgets import Ended, peak_told, prefill_command
from tests.stores import dense_store

MODELS = {
    "wide": synthetic_spec(hidden=1024, ffn=512, layers=4, experts=16, top_k=4),
    "deep": synthetic_spec(hidden=256, ffn=128, layers=24, experts=32, top_k=4, vocab=8192),
    "many words": synthetic_spec(hidden=512, ffn=256, layers=3, experts=64, top_k=8, vocab=32000),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("budget")
    stores = {
        name: pack_synthetic(SyntheticSource(spec), folder / f"{i}.estream", progress=False).path
        for i, (name, spec) in enumerate(MODELS.items())
    }
    stores |= {kind: dense_store(folder, kind, MODELS["many words"]) for kind in ("bf16", "q8_0")}
    # What all runs share, libraries and compiled kernels, is read before a group counts it as its own.
    for name in ("wide", "bf16", "q8_0"):
        run(stores[name], 1, "8GiB")
    return stores


def run(store: Path, tokens: int, budget: str, **options: object) -> Ended:
    """One run, limited to its budget by the kernel too: beyond it, the process is killed."""
    command = prefill_command(store, tokens, budget, **options)
    limit = max(size(budget), 256 << 20)  # a refusal still has to start Python
    done = run_in_group(command, limit)
    ended = Ended(json.loads(done.stdout), peak_told(done.stderr))
    assert done.status == ("error" in ended.figures)
    if "error" not in ended.figures:
        figures = ended.figures
        sys.stdout.write(
            f"{store.name} T={tokens} {options} budget={size(budget)} planned={figures['memory_planned_bytes']} "
            f"RSS={ended.peak} group={done.peak_memory_bytes} banks={figures['banks']} {figures['memory']}\n"
        )
        assert max(ended.peak, done.peak_memory_bytes) <= size(budget)
    return ended


@pytest.mark.parametrize(
    ("model", "tokens", "group"),
    [("wide", 16, 1), ("wide", 500, 4), ("deep", 16, 8), ("deep", 1200, 16), ("many words", 16, 1),
     ("many words", 500, 8), ("bf16", 16, 1), ("bf16", 500, 8), ("q8_0", 16, 1), ("q8_0", 500, 8)],
)  # fmt: skip
def test_the_least_budget_that_a_refusal_names_is_kept(
    stores: dict[str, Path], model: str, tokens: int, group: int
) -> None:
    refused = run(stores[model], tokens, "1MiB", group_size=group)
    found = run(stores[model], tokens, refused.least, group_size=group)
    assert size(refused.least) - found.peak < 20 << 20  # "least" is deserved


@pytest.mark.parametrize(("model", "banks"), [("wide", 1), ("deep", 3)])
def test_with_banks_given_the_budget_is_kept_too(stores: dict[str, Path], model: str, banks: int) -> None:
    refused = run(stores[model], 300, "1MiB", group_size=4, banks=banks)
    found = run(stores[model], 300, refused.least, group_size=4, banks=banks)
    assert found.figures["banks"] == banks


def test_a_larger_budget_gives_more_banks_and_the_same_bits(stores: dict[str, Path]) -> None:
    least = run(stores["many words"], 200, "1MiB", group_size=2).least
    small = run(stores["many words"], 200, least, group_size=2)
    large = run(stores["many words"], 200, f"{size(least) + (20 << 20)}", group_size=2)
    assert large.figures["banks"] > small.figures["banks"] + 4
    assert large.figures["logits_sha256"] == small.figures["logits_sha256"]


def test_chunks_and_resident_experts_are_planned_as_well(stores: dict[str, Path]) -> None:
    least = {}
    for name, flags in (("whole", {}), ("chunks", {"chunk_tokens": 64})):
        refused = run(stores["wide"], 900, "1MiB", group_size=4, **flags)
        least[name] = size(refused.least)
        run(stores["wide"], 900, refused.least, group_size=4, **flags)
    assert least["chunks"] < least["whole"] - (10 << 20)


def test_what_is_available_is_the_control_groups_limit() -> None:
    code = "from estream_lab.machine import memory_budget_bytes; print(memory_budget_bytes())"
    limit = 400 << 20
    told = int(run_in_group([sys.executable, "-c", code], limit).stdout)
    assert 0.8 * limit < told <= limit + (64 << 20)  # pages of shared libraries are another group's
    assert int(run_in_group([sys.executable, "-c", code]).stdout) > 2 * limit
