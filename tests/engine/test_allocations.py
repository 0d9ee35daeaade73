"""After the first request, the layer loop allocates nothing that grows with the prompt."""

import importlib
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core.runtime import _nrt_python, rtsys
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.experts.graph import ExpertGraph
from estream_lab.models.layers import Decoder
from estream_lab.models.synthetic import synthetic_spec
from estream_lab.streaming import StreamingLane
from tests.stores import dense_store

SPEC = synthetic_spec(hidden=32, ffn=32, layers=2, experts=16, top_k=4, heads=1, vocab=96, context=8192)
SHORT, LONG = 1024, 8192

# What one layer takes whatever the prompt: Python's objects, which are spans (kept), views of arrays, and the moves of
# the pipeline. It is about 24 KB; one number a token of the long prompt would have 32 KB more.
BOUND = 48 << 10
DIFFERENCE = 14 << 10  # a number a token makes 28 KB
REQUESTS = 3  # the moves come in another order each time, which makes 8 KB and seldom more


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dense_store(tmp_path_factory.mktemp("a"), "f32", SPEC)


@dataclass
class Loop:
    """What was allocated from one begin of a layer to the next, and to the end of the last layer.

    Attributes:
        peaks: most bytes at once beyond those at the beginning, of every allocator that tells tracemalloc: Python's,
            NumPy's, and numba's, which is Python's.
        arrays: bytes that NumPy holds at each begin, and at the end.
        compiled: allocations that numba counted, less one for each array that entered compiled code: its handle.
    """

    peaks: list[int] = field(default_factory=list)
    arrays: list[int] = field(default_factory=list)
    compiled: int = 0
    _start: int | None = None

    def mark(self) -> None:
        _, peak = tracemalloc.get_traced_memory()
        if self._start is not None:
            self.peaks.append(peak - self._start)
        snapshot = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)]
        )
        self.arrays.append(sum(trace.size for trace in snapshot.traces))
        del snapshot
        tracemalloc.reset_peak()
        self._start = tracemalloc.get_traced_memory()[0]


KERNELS = {
    "estream_lab.kernels.host.attention": ["_attention"],
    "estream_lab.kernels.host.cache": ["_remember"],
    "estream_lab.kernels.host.dense": ["_linear"],
    "estream_lab.kernels.host.expert": ["_gate_up", "_down"],
    "estream_lab.kernels.host.finite": ["_all_finite"],
    "estream_lab.kernels.host.norm": ["_rms_norm", "_rotate_half"],
    "estream_lab.kernels.int8.dense": ["_quantise", "_multiply"],
    "estream_lab.kernels.int8.rows": ["_pick_rows"],
    "estream_lab.kernels.packed.expert": ["_make_records", "_gate_up", "_down"],
    "estream_lab.experts.binding": ["_order", "_gather"],
}


def count_arrays(patch: pytest.MonkeyPatch) -> list[int]:
    """How many arrays each later call of a kernel hands over; kernels of several threads may append at once."""
    entered: list[int] = []
    for path, names in KERNELS.items():
        module = importlib.import_module(path)
        for name in names:
            real = getattr(module, name)

            def counted(*arguments: Any, real: Any = real) -> Any:
                entered.append(sum(isinstance(argument, np.ndarray) for argument in arguments))
                return real(*arguments)

            patch.setattr(module, name, counted)
    return entered


def watch(store: Path, tokens: int, plant: Callable[[int], Any] | None = None, **options: Any) -> Loop:
    """The layer loop of some later requests: the one that took least, for what a prompt needs is in all of them.

    ``plant`` is called with the number of tokens in each layer.
    """
    ids = np.arange(tokens, dtype=np.int32) % SPEC.vocab
    with PrefillEngine.open(store, group_size=4, **options) as engine:
        engine.prefill(ids)
        _nrt_python.memsys_enable_stats()
        tracemalloc.start()
        try:
            engine.prefill(ids)
            loops = [watched(engine, ids, plant) for _ in range(REQUESTS)]
        finally:
            tracemalloc.stop()
            _nrt_python.memsys_disable_stats()
    return min(loops, key=lambda loop: max(loop.peaks))


def watched(engine: PrefillEngine, ids: NDArray[np.int32], plant: Callable[[int], Any] | None) -> Loop:
    """The layer loop of one request."""
    loop = Loop()
    real_begin, real_norm, real_attend = StreamingLane.begin, Decoder.norm, Decoder.attend

    def begin(lane: StreamingLane, layer: int) -> None:
        loop.mark()
        real_begin(lane, layer)

    def attend(*arguments: Any) -> None:
        if plant is not None:
            plant(len(ids))
        real_attend(*arguments)

    def norm(*arguments: Any) -> Any:  # the first thing after the last layer
        loop.compiled = rtsys.get_allocation_stats().alloc - before - sum(entered)
        loop.mark()
        return real_norm(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamingLane, "begin", begin)
        patch.setattr(Decoder, "attend", attend)
        patch.setattr(Decoder, "norm", norm)
        entered = count_arrays(patch)
        before = rtsys.get_allocation_stats().alloc
        engine.prefill(ids)
    assert len(loop.peaks) == SPEC.layers and sum(entered) > 100
    return loop


def grows(short: Loop, long: Loop) -> list[str]:
    """What a longer prompt allocates more of in its layer loop."""
    found = []
    if max(long.peaks) > BOUND:
        found.append("a layer's peak exceeds the bound")
    if max(long.peaks) - max(short.peaks) > DIFFERENCE:
        found.append("a layer's peak grows with the prompt")
    if max(long.arrays) - long.arrays[0] > DIFFERENCE:
        found.append("NumPy holds more from layer to layer")
    if long.compiled:
        found.append("compiled code allocates")
    return found


@pytest.mark.parametrize("options", [{}, {"schedule": "on-demand", "banks": 1}, {"route_capacity": 100_000}])
def test_the_layer_loop_allocates_nothing_for_the_prompt(store: Path, options: dict[str, Any]) -> None:
    short, long = (watch(store, tokens, **options) for tokens in (SHORT, LONG))
    assert grows(short, long) == []
    assert short.compiled == 0


@pytest.mark.parametrize("kind", ["bf16", "q8_0", "q4_0"])
def test_dense_weights_of_no_kind_allocate_for_the_prompt(tmp_path: Path, kind: str) -> None:
    store = dense_store(tmp_path, kind, SPEC)
    short, long = (watch(store, tokens) for tokens in (SHORT, LONG))
    assert grows(short, long) == []
    assert short.compiled == 0


kept: list[np.ndarray] = []
_in_compiled_code = njit(nogil=True)(lambda tokens: np.empty(tokens, np.uint8).size)


PLANTS: dict[str, tuple[Callable[[int], Any], str]] = {
    "an array of the chunk": (lambda tokens: np.empty((tokens, SPEC.hidden), np.float32), "exceeds"),
    "one number a token": (lambda tokens: np.empty(tokens, np.float32), "grows with the prompt"),
    "an array that is kept": (lambda tokens: kept.append(np.zeros(2 * tokens, np.uint8)), "from layer to layer"),
    "an array in compiled code": (_in_compiled_code, "compiled code allocates"),
}


@pytest.fixture(scope="module")
def short(store: Path) -> Loop:
    return watch(store, SHORT)


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_allocation_is_caught(store: Path, short: Loop, name: str) -> None:
    plant, message = PLANTS[name]
    plant(1)  # compiled before it is watched
    long = watch(store, LONG, plant)
    kept.clear()
    assert message in " ".join(grows(short, long))


def test_one_graph_serves_all_requests(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    real = ExpertGraph.__init__
    monkeypatch.setattr(ExpertGraph, "__init__", lambda self, *a, **k: (built.append(1), real(self, *a, **k))[1])
    with PrefillEngine.open(store, group_size=4) as engine:
        builds = [engine.prefill([1, 2, 3] * n).graph_builds for n in (20, 1, 7, 20, 3)]
        assert builds == [1] * 5 and len(built) == 1
        assert engine.prefill([1, 2, 3] * 21).graph_builds == 1
        assert len(built) == 2  # a longer prompt than ever: capacities are of the graph
