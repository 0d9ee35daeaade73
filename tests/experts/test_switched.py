"""Whole models under switches: the exact executor where all are on, whatever the arena; kernels that are watched."""

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.experts import Arena, Binding, ExpertShape, RecordClass
from estream_lab.experts.executors import HOST, exact
from estream_lab.experts.switched import SwitchedKernel, switched, watched
from estream_lab.kernels.exact.switches import STORED, Switches
from tests.stores import SPEC, synthetic_store

DEVICE = Switches.device("hmx_v75_g8")
TOKENS = np.random.default_rng(1).integers(0, SPEC.vocab, 40).astype(np.int32)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("switched")
    return {quant: synthetic_store(folder, quant) for quant in ("q4_0", "f32")}


def logits(store: Path, executor: object, **settings: object) -> NDArray[np.float32]:
    with PrefillEngine.open(store, executor=executor, **settings) as engine:
        return engine.prefill(TOKENS, positions="all").output


@pytest.mark.parametrize("settings", [{}, {"group_size": 3, "banks": 2, "route_capacity": 7}, {"resident": True}])
def test_all_on_is_the_exact_executor_bit_for_bit(stores: dict[str, Path], settings: dict[str, object]) -> None:
    found = logits(stores["q4_0"], switched(DEVICE), **settings)
    assert found.tobytes() == logits(stores["q4_0"], exact("hmx_v75_g8")).tobytes()
    assert found.tobytes() != logits(stores["q4_0"], switched(replace(DEVICE, silu=False)), **settings).tobytes()


def test_quantising_a_store_of_floats_is_the_store_in_q4_0(stores: dict[str, Path]) -> None:
    on = replace(DEVICE, quantise=True)
    assert logits(stores["f32"], switched(on)).tobytes() == logits(stores["q4_0"], switched(DEVICE)).tobytes()


@pytest.mark.parametrize("quant", ["q4_0", "f32"])
def test_all_off_is_close_to_the_host(stores: dict[str, Path], quant: str) -> None:
    np.testing.assert_allclose(logits(stores[quant], switched(Switches())), logits(stores[quant], HOST), atol=1e-5)


def test_a_watched_kernel_computes_the_same_and_shows_each_layer_once(stores: dict[str, Path]) -> None:
    seen: list[tuple[tuple[int, ...], int]] = []

    def see(x: NDArray[np.float32], binding: Binding, arena: Arena, record: RecordClass) -> None:
        seen.append((x.shape, len(binding)))

    spied = watched(switched(DEVICE), see)
    with PrefillEngine.open(stores["q4_0"], executor=spied, group_size=SPEC.experts, banks=1) as engine:
        seen.clear()  # what a kernel is warmed up with
        found = engine.prefill(TOKENS, positions="all")
    assert seen == [((40, SPEC.hidden), 80)] * SPEC.layers
    assert found.output.tobytes() == logits(stores["q4_0"], switched(DEVICE)).tobytes()


def test_results_say_what_was_switched_on(stores: dict[str, Path]) -> None:
    with PrefillEngine.open(stores["q4_0"], executor=switched(Switches(silu=True))) as engine:
        result = engine.prefill(TOKENS)
    assert (result.lane, result.profile) == ("switched", "switched: silu")


ROWS = 64
RECORDS = {
    layout: RecordClass.of(ExpertShape(512, 256, (layout,) * 3)) for layout in ("q4-32x32", "f32")
}  # large enough for weights and rows to be most of it

PEAKS = (
    Switches(),
    DEVICE,
    Switches.device("ieee_fp32"),
    Switches(quantise=True, accumulator=STORED, scatter="reverse"),
    Switches(decode=True, operands=True, silu=True),
)


def peak_of_a_call(record: RecordClass, switches: Switches, slots: int) -> int:
    """The most that a call with C records in so many slots takes, in bytes; after one that made what stays."""
    hidden, rng = record.shape.hidden, np.random.default_rng(2)
    arena = Arena(1, slots, record.stride)
    if record.shape.layouts[0] == "f32":
        weights = arena.memory.view(np.float32)
        weights[:] = rng.standard_normal(len(weights)) / 50
    x, y = rng.standard_normal((ROWS, hidden)).astype(np.float32), np.zeros((ROWS, hidden), np.float32)
    offsets = np.linspace(0, ROWS, slots + 1).astype(np.int64)
    token, one = np.arange(ROWS, dtype=np.int32), np.ones(ROWS, np.float32)
    binding = Binding(offsets, token, token, one, np.arange(slots, dtype=np.int32))
    kernel = SwitchedKernel(record, ROWS, switches=switches)
    kernel(x, y, binding, arena, record)
    tracemalloc.start()
    try:
        kernel(x, y, binding, arena, record)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("layout", RECORDS)
@pytest.mark.parametrize("on", PEAKS, ids=lambda on: "+".join(on.names) or "off")
def test_a_call_takes_no_more_than_is_counted_and_half_of_it_at_least(layout: str, on: Switches) -> None:
    record = RECORDS[layout]
    counted = SwitchedKernel.bytes_for(record, ROWS, 1)
    assert counted == SwitchedKernel(record, ROWS, switches=on).nbytes
    assert counted / 2 < peak_of_a_call(record, on, 1) < counted


@pytest.mark.parametrize("shape", [(32, 32), (64, 96), (96, 64)])
@pytest.mark.parametrize("on", PEAKS, ids=lambda on: "+".join(on.names) or "off")
def test_a_small_expert_takes_no_more_than_is_counted(shape: tuple[int, int], on: Switches) -> None:
    record = RecordClass.of(ExpertShape(*shape, ("q4-32x32",) * 3))
    assert peak_of_a_call(record, on, 1) < SwitchedKernel.bytes_for(record, ROWS, 1)


@pytest.mark.parametrize("layout", RECORDS)
@pytest.mark.parametrize("on", PEAKS, ids=lambda on: "+".join(on.names) or "off")
def test_however_many_slots_one_expert_is_unpacked_at_a_time(layout: str, on: Switches) -> None:
    one, eight = (peak_of_a_call(RECORDS[layout], on, slots) for slots in (1, 8))
    assert eight < one
