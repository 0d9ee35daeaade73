"""The shipped model over the whole grid: schedules x (G, Q, B) x threads, one set of bits."""

import itertools
import sys
from pathlib import Path

import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.experts.schedule import POLICIES
from estream_lab.streaming import Store
from estream_lab.streaming.pack import pack

ROOT = Path(__file__).resolve().parents[2]
TOKENS = list((ROOT / "data" / "tiny_moe" / "heldout" / "code.txt").read_bytes()[:96])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(
        pack(ROOT / "data/tiny_moe/checkpoint", tmp_path_factory.mktemp("g") / "m.estream", progress=False).path
    )


def grid(experts: int) -> list[tuple[int, int, int]]:
    """All (G, Q, B) of the exhaustive sweep: Q of 1 and 2, 1 <= B <= E/G, Q <= B (system, section 6)."""
    sizes = [2**i for i in range(experts.bit_length()) if 2**i <= experts]
    return [(g, q, b) for g in sizes for q in (1, 2) for b in range(1, experts // g + 1) if q <= b]


def test_logits_are_the_same_bits_over_the_whole_grid(store: Store) -> None:
    with PrefillEngine.open(store, resident=True) as engine:
        expected = engine.prefill(TOKENS, positions="all").logits_sha256
    runs = list(itertools.product(POLICIES, grid(store.spec.experts), (1, 2)))
    assert len(runs) == 3 * 57 * 2
    for schedule, (g, q, b), threads in runs:
        with PrefillEngine.open(
            store, schedule=schedule, group_size=g, queue_depth=q, banks=b, threads=threads, poison=True
        ) as engine:
            found = engine.prefill(TOKENS, positions="all")
        assert (found.schedule, found.group_size, found.queue_depth, found.banks) == (schedule, g, q, b)
        assert found.logits_sha256 == expected, (schedule, g, q, b, threads)
    sys.stdout.write(f"{len(runs)} runs, one set of bits: {expected[:16]}\n")


@pytest.mark.parametrize("chunk", [1, 5, 31, 32, 64, 95])
def test_chunks_change_no_bit_and_no_route(store: Store, chunk: int) -> None:
    with PrefillEngine.open(store) as engine:
        whole = engine.prefill(TOKENS, positions="all")
    with PrefillEngine.open(store, chunk_tokens=chunk) as engine:
        cut = engine.prefill(TOKENS, positions="all")
    assert cut.logits_sha256 == whole.logits_sha256
    assert cut.routes == whole.routes
