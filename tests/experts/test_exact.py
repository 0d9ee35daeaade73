"""The exact kernel as part of the graph: neither C nor the bank changes a bit; other layouts are refused."""

from collections.abc import Callable

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts import Arena, ExpertShape, RecordClass, compact
from estream_lab.experts.exact import ExactKernel
from estream_lab.experts.executors import EXECUTORS, HOST, exact, executor
from estream_lab.experts.graph import ExpertGraph, GraphCounts
from estream_lab.experts.order_steps import StepRecorder
from estream_lab.kernels.exact import PROFILES, twin
from estream_lab.kernels.layout import pack_q4_32x32
from estream_lab.kernels.vtcm import plan_tiles
from estream_lab.routing import Routes

HIDDEN, FFN, EXPERTS, TOKENS, K = 96, 64, 4, 30, 3
RECORD = RecordClass.of(ExpertShape(HIDDEN, FFN, ("q4-32x32",) * 3))
RNG = np.random.default_rng(21)
WEIGHTS = [
    [
        (RNG.integers(0, 16, (n, k)).astype(np.uint8), (RNG.standard_normal((n, k // 32)) / 50).astype(np.float16))
        for n, k in ((FFN, HIDDEN), (FFN, HIDDEN), (HIDDEN, FFN))
    ]
    for _ in range(EXPERTS)
]
X = RNG.standard_normal((TOKENS, HIDDEN)).astype(np.float32)
ROUTES = Routes(
    np.repeat(np.arange(TOKENS, dtype=np.int32), K),
    RNG.integers(0, EXPERTS - 1, TOKENS * K).astype(np.int32),  # duplicates within a token, and expert 3 has none
    RNG.random(TOKENS * K).astype(np.float32),
)


def filled(home: np.ndarray) -> Arena:
    """Expert e in slot home[e] of two banks of four."""
    arena = Arena(2, 4, RECORD.stride)
    for expert, slot in enumerate(home):
        at = slot * arena.stride
        for q, d in WEIGHTS[expert]:
            packed = pack_q4_32x32(q, d)
            arena.memory[at : at + len(packed)] = packed
            at += len(packed)
    return arena


def result(profile: str, capacity: int, bank: int = 0) -> np.ndarray:
    home = np.arange(EXPERTS, dtype=np.int32) + 4 * bank
    kernel = exact(profile).kernel(RECORD, capacity)
    graph = ExpertGraph(RECORD, filled(home), kernel, capacity, TOKENS, GraphCounts())
    y = np.zeros_like(X)
    assert graph.invoke(X, y, compact(ROUTES, home, 4 * bank, 4)) == -(-len(ROUTES) // capacity)
    return y


@pytest.mark.parametrize("profile", PROFILES)
def test_neither_capacity_nor_bank_changes_a_bit(profile: str) -> None:
    expected = result(profile, 90)
    for capacity in (89, 31, 7, 1):  # R > C: split
        assert result(profile, capacity).tobytes() == expected.tobytes()
    assert result(profile, 90, bank=1).tobytes() == expected.tobytes()
    binding = compact(ROUTES, np.arange(EXPERTS, dtype=np.int32), 0, EXPERTS)
    y = np.zeros_like(X)
    experts = [tuple(w) if n else None for w, n in zip(WEIGHTS, np.diff(binding.offsets), strict=True)]
    twin.expert_bank(X, y, binding.offsets, binding.token, binding.weight, experts, profile)  # type: ignore[arg-type]
    assert y.tobytes() == expected.tobytes()


def test_two_filled_banks_can_be_swapped() -> None:
    """Experts 0 and 1 in one bank and 2 and 3 in the other, either way round; banks run in visit order."""
    results = []
    for home in (np.array([0, 1, 4, 5], np.int32), np.array([4, 5, 0, 1], np.int32)):
        arena, y = filled(home), np.zeros_like(X)
        graph = ExpertGraph(RECORD, arena, exact().kernel(RECORD, 90), 90, TOKENS, GraphCounts())
        for first in (0, 2):
            graph.invoke(X, y, compact(ROUTES, home, int(home[first]), 4))
        results.append(y.tobytes())
    assert results[0] == results[1] == result("hmx_v75_g8", 90).tobytes()


def test_two_experts_in_each_others_slots_are_told_apart() -> None:
    """The test above would pass if slots were ignored."""
    home = np.arange(EXPERTS, dtype=np.int32)
    graph = ExpertGraph(RECORD, filled(home[::-1]), exact().kernel(RECORD, 90), 90, TOKENS, GraphCounts())
    y = np.zeros_like(X)
    graph.invoke(X, y, compact(ROUTES, home, 0, 4))
    assert not np.allclose(y, result("hmx_v75_g8", 90), rtol=0.1)


def test_other_layouts_are_refused() -> None:
    message = "reads records in q4-32x32, not f32: pack the model with --quant q4_0"
    for layouts in (("f32",) * 3, ("q4-32x32", "q4-32x32", "f32")):
        record = RecordClass.of(ExpertShape(HIDDEN, FFN, layouts))
        with pytest.raises(EStreamError, match=message):
            exact().kernel(record, 8)
        with pytest.raises(EStreamError, match=message):  # before any memory is planned
            exact().bytes_for(record, 8, 1)


def test_a_scale_that_overflows_is_the_users_error() -> None:
    home, y = np.arange(EXPERTS, dtype=np.int32), np.zeros_like(X)
    arena = filled(home)
    at = arena.stride + RECORD.gate_bytes + 512  # of expert 1
    arena.memory[at : at + 2] = np.array([8192], np.float16).view(np.uint8)
    graph = ExpertGraph(RECORD, arena, exact().kernel(RECORD, 90), 90, TOKENS, GraphCounts())
    with pytest.raises(EStreamError, match="the up projection in slot 1 of a bank has a scale of 8192 or more"):
        graph.invoke(X, y, compact(ROUTES, home, 0, 4))
    assert not y.any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_activations_that_are_no_numbers_are_the_users_error(value: float) -> None:
    home, y = np.arange(EXPERTS, dtype=np.int32), np.zeros_like(X)
    graph = ExpertGraph(RECORD, filled(home), exact().kernel(RECORD, 90), 90, TOKENS, GraphCounts())
    x = X.copy()
    x[-1, -1] = value
    with pytest.raises(EStreamError, match="activations that are not finite: .*, check the model"):
        graph.invoke(x, y, compact(ROUTES, home, 0, 4))
    assert not y.any()


def test_traces_say_what_vtcm_and_tiles_there_were() -> None:
    assert HOST.provenance(RECORD, 50) == {}
    plan = plan_tiles(HIDDEN, FFN, 50, 300_000)
    assert exact(vtcm_bytes=300_000).provenance(RECORD, 50) == {
        "vtcm_bytes": 300_000,
        "vtcm_used_bytes": plan.used_bytes,
        "tile_rows": plan.rows,
        "ffn_panel_columns": plan.ffn_columns,
        "hidden_panel_columns": plan.hidden_columns,
    }


def test_memory_is_foretold() -> None:
    for made in (HOST, exact("hmx_v73_g4", 400_000)):
        kernel = made.kernel(RECORD, 50)
        from estream_lab.kernels import host

        assert kernel.nbytes == made.bytes_for(RECORD, 50, host.threads()) > 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: executor("npu", None, None), "choose one of host, exact"),
        (lambda: executor("exact", "v75", None), "no numerics profile 'v75': choose one of ieee_fp32"),
        (lambda: executor("host", "ieee_fp32", None), "the host executor has no numerics profile"),
        (lambda: executor("host", None, 8 << 20), "the host executor has no VTCM capacity"),
        (lambda: executor("host", None, 0), "the host executor has no VTCM capacity"),
        (lambda: executor("exact", "", None), "there is no numerics profile ''"),
        (lambda: executor("host", None, None, steps=True), "the host executor has no record of steps"),
    ],
)
def test_what_an_executor_does_not_have_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(EStreamError, match=message):
        make()
    assert [executor(name, None, None).name for name in EXECUTORS] == ["host", "exact"]


def test_recorded_steps_are_those_of_every_slot_and_part() -> None:
    recorder = StepRecorder()
    kernel = ExactKernel(RECORD, 20, recorder, profile_name="ieee_fp32", vtcm_bytes=8 << 20)
    home = np.arange(EXPERTS, dtype=np.int32)
    graph = ExpertGraph(RECORD, filled(home), kernel, 20, TOKENS, GraphCounts())
    recorder.place(layer=2, group=1, bank=0)
    binding = compact(ROUTES, home, 0, 4)
    graph.invoke(X, np.zeros_like(X), binding)
    trace = recorder.trace({"machine": "none"})
    assert {s.clock for s in trace.spans} == {"order"} and {s.unit for s in trace.spans} == {"dma", "vector", "matrix"}
    assert {(s.layer, s.group, s.bank) for s in trace.spans} == {(2, 1, 0)}
    gathered = {slot: sum(s.rows or 0 for s in trace.select(name="gather") if s.slot == slot) for slot in range(4)}
    assert gathered == dict(enumerate(np.diff(binding.offsets))) and gathered[3] == 0
    parts = sum(int((np.diff(part.offsets) > 0).sum()) for part in binding.split(20))
    fetched = sum(s.bytes or 0 for s in trace.select("dma"))
    assert fetched == parts * RECORD.expert_bytes  # one row tile each: every weight once
    assert len(trace.spans) <= ExactKernel.most_steps(
        RECORD, 20, 4 + len(ROUTES) // 20, len(ROUTES), vtcm_bytes=8 << 20
    )
    recorder.clear()
    assert recorder.trace({}).spans == ()


def test_the_spans_of_two_slots() -> None:
    """What, where, how many rows and bytes, of one panel each; the second slot begins when the first has ended."""
    recorder = StepRecorder()
    kernel = ExactKernel(RECORD, 20, recorder, profile_name="ieee_fp32", vtcm_bytes=8 << 20)
    home = np.arange(EXPERTS, dtype=np.int32) + 4
    routes = Routes(np.zeros(3, np.int32), np.array([0, 0, 2], np.int32), np.ones(3, np.float32))
    recorder.place(layer=1, group=5, bank=3)
    graph = ExpertGraph(RECORD, filled(home), kernel, 20, TOKENS, GraphCounts())
    graph.invoke(X, np.zeros_like(X), compact(routes, home, 4, 4))
    pair, down = 2 * RECORD.gate_bytes, RECORD.down_bytes
    expected = [
        ("dma", "fetch gate and up", 0, 0, pair), ("dma", "fetch down", 1, 0, down),
        ("vector", "gather", 0, None, None), ("vector", "decode gate and up", 1, 0, None),
        ("vector", "decode down", 2, 0, None), ("matrix", "matmul gate and up", 2, 0, None),
        ("vector", "swiglu gate and up", 3, 0, None), ("matrix", "matmul down", 4, 0, None),
        ("vector", "scatter down", 5, 0, None),
    ]  # fmt: skip
    spans = recorder.trace({}).spans
    for slot, rows, begin in ((4, 2, 0), (6, 1, 6)):
        found = [(s.unit, s.name, s.start_ns - begin, s.tile, s.bytes) for s in spans if s.slot == slot]
        assert sorted(found, key=str) == sorted(expected, key=str)
        assert {(s.rows, s.layer, s.group, s.bank, s.duration_ns) for s in spans if s.slot == slot} == {
            (rows, 1, 5, 3, 1)
        }
    assert len(spans) == 2 * len(expected)


def test_no_more_steps_than_foretold_with_several_row_tiles() -> None:
    least = 185_000
    recorder = StepRecorder()
    kernel = ExactKernel(RECORD, 90, recorder, profile_name="ieee_fp32", vtcm_bytes=least)
    home = np.arange(EXPERTS, dtype=np.int32)
    one = Routes(ROUTES.token, np.zeros(90, np.int32), ROUTES.weight)
    graph = ExpertGraph(RECORD, filled(home), kernel, 90, TOKENS, GraphCounts())
    graph.invoke(X, np.zeros_like(X), compact(one, home, 0, 4))
    steps = len(recorder.trace({}).spans)
    assert 50 < steps <= ExactKernel.most_steps(RECORD, 90, 1, 90, vtcm_bytes=least) < 2 * steps
