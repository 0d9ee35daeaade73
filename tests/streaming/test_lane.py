"""Lanes: results that no schedule, arena or fault can change, and nothing left behind."""

import os
import shutil
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.experts import ResidencyError, ResidencyTable, SlotState
from estream_lab.experts.schedule import POLICIES
from estream_lab.routing import Routes, synthetic_routes
from estream_lab.streaming import LanePlan, Store, StreamingLane, open_lane
from estream_lab.streaming.loader import GroupRead, Loader
from estream_lab.streaming.pipeline import Pipeline
from estream_lab.streaming.plan import WaitLimit
from estream_lab.trace import Recorder
from tests.stores import SPEC, synthetic_store

TOKENS = 12


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(synthetic_store(tmp_path_factory.mktemp("lane")))


def inputs(seed: int, alpha: float = 1.0) -> tuple[np.ndarray, dict[int, Routes]]:
    x = np.random.default_rng(seed).standard_normal((TOKENS, SPEC.hidden), dtype=np.float32)
    return x, {
        layer: synthetic_routes(TOKENS, SPEC.experts, 2, alpha=alpha, seed=seed + layer) for layer in range(SPEC.layers)
    }


def plan(schedule: str = "early", group: int = 3, banks: int = 2, queue: int = 2, **more: Any) -> LanePlan:
    return LanePlan(schedule, group, banks, queue, TOKENS, more.pop("capacity", 64), poison=True, **more)


def run_layers(lane: Any, x: np.ndarray, routes: dict[int, Routes]) -> tuple[list[np.ndarray], list[Any]]:
    outputs, completions = [], []
    for layer in range(SPEC.layers):
        lane.begin(layer)
        y, completion = lane.run(layer, x, routes[layer])
        outputs.append(y.copy())
        completions.append(completion)
    return outputs, completions


def resident(store: Store, x: np.ndarray, routes: dict[int, Routes]) -> list[np.ndarray]:
    return run_layers(open_lane(store, plan(), resident=True), x, routes)[0]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    schedule=st.sampled_from(sorted(POLICIES)), group=st.integers(1, 10), banks=st.integers(1, 5),
    queue=st.integers(1, 4), capacity=st.integers(1, 40), alpha=st.sampled_from([0.05, 1.0, 20.0]),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_every_schedule_and_arena_gives_the_resident_result_bit_for_bit(
    store: Store, schedule: str, group: int, banks: int, queue: int, capacity: int, alpha: float, seed: int
) -> None:
    x, routes = inputs(seed, alpha)
    lane = StreamingLane(store, plan(schedule, group, banks, queue, capacity=capacity))
    try:
        outputs, completions = run_layers(lane, x, routes)
        states = {lane.pipeline.residency.bank_state(bank) for bank in range(banks)}
    finally:
        lane.close()
    for found, expected in zip(outputs, resident(store, x, routes), strict=True):
        assert found.tobytes() == expected.tobytes()
    assert states == {SlotState.AVAILABLE}
    for layer, completion in enumerate(completions):
        experts = np.unique(routes[layer].expert)
        groups = np.unique(experts // group)
        sizes = [min(group, SPEC.experts - g * group) * store.stride for g in groups]
        assert completion.bytes_read - completion.bytes_speculative == sum(sizes)
        assert completion.groups == len(groups)
        assert schedule == "early" or completion.bytes_speculative == 0
    assert np.isnan(lane._arena.memory.view(np.float32)).all()  # every bank was given up


def test_spans_tell_reads_runs_and_rows(store: Store) -> None:
    x, routes = inputs(5)
    lane = StreamingLane(store, plan("after-routing", 3, 2, 2))
    recorder = Recorder(lane.name)
    lane.start(recorder)
    _, completions = run_layers(lane, x, routes)
    lane.close()
    trace = recorder.trace({})
    reads, runs = trace.select("storage"), trace.select("expert")
    assert sum(span.bytes or 0 for span in reads) == sum(c.bytes_read for c in completions)
    assert sum(span.rows or 0 for span in runs) == SPEC.layers * TOKENS * 2
    for run in runs:  # a group runs only after it has been read, into the same bank
        (read,) = [r for r in reads if (r.layer, r.group) == (run.layer, run.group)]
        assert read.bank == run.bank and read.end_ns <= run.start_ns


@pytest.mark.parametrize("schedule", sorted(POLICIES))
def test_a_failed_read_is_the_error_and_the_lane_works_again(
    store: Store, tmp_path: Path, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, routes = inputs(1)
    lane = StreamingLane(store, plan(schedule))
    real = Loader._read

    def fail(self: Loader, read: GroupRead, asked_ns: int) -> tuple[int, int, int]:
        if (read.layer, read.group) == (1, 2):
            raise EStreamError("the disk is on fire")
        return real(self, read, asked_ns)

    monkeypatch.setattr(Loader, "_read", fail)
    with pytest.raises(EStreamError, match="on fire"):
        run_layers(lane, x, routes)
    monkeypatch.undo()
    outputs, _ = run_layers(lane, x, routes)
    lane.close()
    for found, expected in zip(outputs, resident(store, x, routes), strict=True):
        assert found.tobytes() == expected.tobytes()


def test_a_wrong_checksum_never_becomes_logits(tmp_path: Path) -> None:
    path = synthetic_store(tmp_path)
    content = bytearray((path / "experts.bin").read_bytes())
    content[Store(path).layers[1].offset + 7] ^= 16
    (path / "experts.bin").write_bytes(content)
    lane = StreamingLane(Store(path), plan())
    with pytest.raises(EStreamError, match="expert 0 of layer 1 .* wrong checksum"):
        run_layers(lane, *inputs(0, alpha=20.0))
    lane.close()


def test_a_store_deleted_in_mid_run_changes_nothing(tmp_path: Path) -> None:
    path = synthetic_store(tmp_path)
    store = Store(path)
    x, routes = inputs(3)
    expected = resident(store, x, routes)
    lane = StreamingLane(store, plan("on-demand", 1, 1, 1))
    lane.begin(0)
    first = lane.run(0, x, routes[0])[0].copy()
    shutil.rmtree(path)  # the open descriptor keeps the data; only a new run can't start
    outputs = [first]
    for layer in (1, 2):
        lane.begin(layer)
        outputs.append(lane.run(layer, x, routes[layer])[0].copy())
    lane.close()
    assert [o.tobytes() for o in outputs] == [e.tobytes() for e in expected]
    with pytest.raises(EStreamError, match="can't open"):
        StreamingLane(store, plan())


def test_a_store_cut_off_in_mid_run_is_an_error(tmp_path: Path) -> None:
    path = synthetic_store(tmp_path)
    x, routes = inputs(3)
    lane = StreamingLane(Store(path), plan("on-demand"))
    lane.begin(0)
    lane.run(0, x, routes[0])
    os.truncate(path / "experts.bin", 4096)
    lane.begin(1)
    with pytest.raises(EStreamError, match="cut off while in use"):
        lane.run(1, x, routes[1])
    lane.close()


def test_storage_that_never_answers_is_given_up(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lane = StreamingLane(store, plan("after-routing"), WaitLimit(0.05))
    x, routes = inputs(0)
    never: Future[tuple[int, int, int]] = Future()
    monkeypatch.setattr(lane._loader, "submit", lambda read: never)
    lane.begin(0)
    with pytest.raises(EStreamError, match="gave up waiting for group"):
        lane.run(0, x, routes[0])
    lane._loader.close()


def test_an_abort_does_not_wait_for_ever_and_close_ends_the_reads(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, real = threading.Event(), Loader._read

    def slow(self: Loader, read: GroupRead, asked_ns: int) -> tuple[int, int, int]:
        answer.wait()
        return real(self, read, asked_ns)

    monkeypatch.setattr(Loader, "_read", slow)
    lane = StreamingLane(store, plan(), WaitLimit(0.05))
    lane.begin(0)
    with pytest.raises(EStreamError, match="did not end within 0.05 s"):
        lane.abort()
    answer.set()
    lane.close()


@pytest.mark.parametrize("owner", ["assign", "submit", "add_done_callback", "_advance", "use", "release"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_an_interrupt_at_any_step_leaves_a_lane_that_works(
    store: Store, owner: str, after: bool, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The main thread is interrupted just before or after the nth call of a step; what the call returned is lost."""
    place = {"submit": Loader, "add_done_callback": Future, "_advance": Pipeline}.get(owner, ResidencyTable)
    real, calls = getattr(place, owner), 0

    def interrupted(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        if threading.current_thread() is not threading.main_thread():
            return real(*arguments, **more)
        calls += 1
        mine = calls  # a step may come about within a step
        if mine == nth and not after:
            raise KeyboardInterrupt
        value = real(*arguments, **more)
        if mine == nth:
            raise KeyboardInterrupt
        return value

    x, routes = inputs(2)
    lane = StreamingLane(store, plan("after-routing", 2, 2, 2), WaitLimit(5.0))
    monkeypatch.setattr(place, owner, interrupted)
    with pytest.raises(KeyboardInterrupt):
        for _ in range(20):  # a step may fall to another thread: that is a matter of time
            run_layers(lane, x, routes)
    monkeypatch.undo()
    lane.abort()
    assert np.isnan(lane._arena.memory.view(np.float32)).all()  # no byte arrived after the abort
    outputs, _ = run_layers(lane, x, routes)
    lane.close()
    for found, expected in zip(outputs, resident(store, x, routes), strict=True):
        assert found.tobytes() == expected.tobytes()


def test_a_fault_in_the_loaders_callback_is_raised_by_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A future only logs what its callback raises."""

    def fault(self: ResidencyTable, bank: int) -> bool:
        raise ResidencyError("planted")

    lane = StreamingLane(store, plan(), WaitLimit(5.0))
    monkeypatch.setattr(ResidencyTable, "slice_arrived", fault)
    with pytest.raises(ResidencyError, match="planted"):
        run_layers(lane, *inputs(0))
    lane.close()


def test_an_expert_that_is_not_in_its_bank_is_never_left_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ResidencyTable.placement

    def gap(self: ResidencyTable, layer: int) -> np.ndarray:
        placement = real(self, layer).copy()
        placement[4] = -1
        return placement

    monkeypatch.setattr(ResidencyTable, "placement", gap)
    lane = StreamingLane(store, plan())
    with pytest.raises(ResidencyError, match="of group 1's"):
        run_layers(lane, *inputs(0, alpha=20.0))
    lane.close()


def test_abort_before_the_routes_frees_every_bank(store: Store) -> None:
    others = set(threading.enumerate())
    lane = StreamingLane(store, plan())
    lane.begin(0)
    lane.abort()
    assert {lane.pipeline.residency.bank_state(bank) for bank in range(2)} == {SlotState.AVAILABLE}
    lane.begin(0)
    with pytest.raises(RuntimeError, match="not run"):
        lane.begin(1)
    lane.close()
    left = [thread for thread in set(threading.enumerate()) - others if thread.name.startswith("estream-read")]
    for thread in left:
        thread.join(10.0)  # told to end; a busy machine lets them a little later
    assert not [thread for thread in left if thread.is_alive()]


def test_one_graph_is_built_whatever_the_layers(store: Store) -> None:
    lane = StreamingLane(store, plan())
    run_layers(lane, *inputs(0))
    lane.close()
    assert lane.counts.builds == 1 and lane.counts.routes == SPEC.layers * TOKENS * 2


@pytest.mark.parametrize("group", [0, 11])
def test_a_group_size_that_no_layer_has_is_refused(store: Store, group: int) -> None:
    with pytest.raises(EStreamError, match="not between 1 and the layer's 10"):
        open_lane(store, plan(group=group), resident=False)
