"""1,000 requests in turn on one engine: memory stays flat, and no result knows of the requests before it."""

import multiprocessing
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.machine import rss_bytes
from estream_lab.streaming.pack import pack
from tests.golden_compare import TINY_MOE

REQUESTS, PROMPTS, LONGEST, SETTLED = 1000, 150, 1024, 10
SHAPE = {"group_size": 2, "banks": 3, "queue_depth": 2}
FRESH = 24  # prompts that are run on engines of their own
HELDOUT = TINY_MOE.parent / "heldout"


def prompts() -> list[list[int]]:
    """Cuts of the held-out text and code of 1 to 1,024 tokens, short ones more often; the first is the longest."""
    rng = np.random.default_rng(3)
    content = [(HELDOUT / name).read_bytes() for name in ("text.txt", "code.txt")]
    lengths = [LONGEST, *np.exp(rng.uniform(0, np.log(LONGEST), PROMPTS - 1)).astype(int)]
    starts = [int(rng.integers(len(content[i % 2]) - length)) for i, length in enumerate(lengths)]
    return [list(content[i % 2][at : at + n]) for i, (at, n) in enumerate(zip(starts, lengths, strict=True))]


def turns() -> list[int]:
    """Which prompt each request takes: the longest among the first ten, then any."""
    rng = np.random.default_rng(4)
    return [int(n) for n in [3, 0, *rng.integers(0, PROMPTS, REQUESTS - 2)]]


def soak(store: Path) -> tuple[list[int], list[str]]:
    """The resident set after each request, and the hash of each result's logits; run in a process of its own."""
    texts, resident, hashes = prompts(), [], []
    # Python's own table of strings doubles when it has taken so many, by a megabyte at once: now, and not on the way.
    for number in range(20_000):
        sys.intern(f"soak {number}")
    with PrefillEngine.open(store, **SHAPE) as engine:
        for turn in turns():
            hashes.append(engine.prefill(texts[turn]).logits_sha256)
            resident.append(rss_bytes())
    return resident, hashes


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(TINY_MOE, tmp_path_factory.mktemp("soak") / "m.estream", progress=False).path


@pytest.fixture(scope="module")
def soaked(store: Path) -> tuple[list[int], list[str]]:
    """From a process that does nothing else: pytest's own memory has no part in it."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(soak, store).result()


def test_memory_is_flat_after_the_tenth_request(soaked: tuple[list[int], list[str]]) -> None:
    settled = np.array(soaked[0][SETTLED - 1 :])
    assert len(settled) == REQUESTS - SETTLED + 1 and 0 in turns()[:SETTLED]
    spread = int(settled.max() - settled.min())
    sys.stdout.write(f"{REQUESTS} requests: {settled[0]} bytes after the tenth, later within {spread}\n")
    assert spread <= 1_000_000


def test_equal_prompts_give_equal_results_whatever_came_between(soaked: tuple[list[int], list[str]]) -> None:
    found = defaultdict(set)
    for turn, logits in zip(turns(), soaked[1], strict=True):
        found[turn].add(logits)
    assert len(found) > 140 and {len(hashes) for hashes in found.values()} == {1}
    texts = prompts()  # the shortest ones come more than once
    different = {bytes(texts[turn]) for turn in found}
    assert len({next(iter(hashes)) for hashes in found.values()}) == len(different) > 100  # and other prompts others


def test_results_are_those_of_fresh_engines(store: Path, soaked: tuple[list[int], list[str]]) -> None:
    texts, last = prompts(), dict(zip(turns(), soaked[1], strict=True))
    chosen = sorted(last)[:: len(last) // FRESH][:FRESH]
    assert len(chosen) >= 20 and chosen[0] == 0
    for turn in chosen:
        with PrefillEngine.open(store, **SHAPE) as engine:
            assert engine.prefill(texts[turn]).logits_sha256 == last[turn]
