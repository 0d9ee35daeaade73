"""A memory budget is kept by real processes, at exactly the least that the refusal named too."""

import json
import subprocess
from pathlib import Path

import pytest

from estream_lab.cli.options import size
from estream_lab.models.synthetic import SyntheticSource, synthetic_spec
from estream_lab.streaming.pack import pack_synthetic
from tests.budgets import Ended, peak_told, prefill_command

SPEC = synthetic_spec(hidden=512, ffn=512, layers=3, experts=12, top_k=3, vocab=96, context=600)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_synthetic(SyntheticSource(SPEC), tmp_path_factory.mktemp("b") / "m.estream", progress=False).path


def run(store: Path, tokens: int, budget: str, **options: object) -> Ended:
    command = prefill_command(store, tokens, budget, **options)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    ended = Ended(json.loads(done.stdout), peak_told(done.stderr))
    assert done.returncode == ("error" in ended.figures)
    return ended


@pytest.mark.parametrize(("tokens", "group"), [(500, 4), (16, 12)])
def test_the_process_stays_within_the_least_budget_that_was_named(store: Path, tokens: int, group: int) -> None:
    refused = run(store, tokens, "1MiB", group_size=group)
    found = run(store, tokens, refused.least, group_size=group)
    assert found.peak <= size(refused.least) == found.figures["memory_budget_bytes"]
    assert found.figures["memory_planned_bytes"] <= size(refused.least)
    # and the name "least" is deserved: what was left over is the margin of the plan, not a guess
    assert size(refused.least) - found.peak < 16 << 20
    assert refused.peak < found.figures["memory"]["interpreter"] + (4 << 20)  # refused with no weight loaded
