"""Policies on the real lane, always with the hazard checker on: right ones change no bit, wrong ones are refused."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.experts import ResidencyTable
from estream_lab.experts.decide import PolicyError
from estream_lab.experts.hazards import HazardError
from estream_lab.experts.protocol import GroupKey
from estream_lab.experts.retention import KeepFirst, KeepLatest, Retention
from estream_lab.experts.schedule import AfterRouting, CarryOver, Early, OnDemand, Schedule, View
from estream_lab.experts.watch import hazards
from estream_lab.routing import Routes
from estream_lab.streaming import Completion, LanePlan, Store, StreamingLane
from estream_lab.streaming.loader import GroupRead, Loader
from estream_lab.streaming.pipeline import Pipeline
from estream_lab.trace import Recorder, Trace
from tests.stores import SPEC, synthetic_store
from tests.streaming.test_lane import TOKENS, inputs, resident, run_layers


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(synthetic_store(tmp_path_factory.mktemp("policies")))


def plan(schedule: Schedule, group: int = 2, banks: int = 3, queue: int = 2, **more: Any) -> LanePlan:
    return LanePlan(schedule, group, banks, queue, TOKENS, 64, poison=True, check_hazards=True, **more)


class LastFirst(Schedule):
    """Reads the last group first, while banks to spare allow it."""

    name = "last first"

    def next_read(self, view: View) -> GroupKey | None:
        line = (*view.unread, *view.ahead)
        spare = view.free + len(view.evictable)
        return (line[-1] if spare > 1 else line[0]) if line else None


class Popular(Schedule):
    """Reads early what an earlier request used much, the rest once the routes are known."""

    name = "popular"

    def __init__(self, popular: frozenset[GroupKey]) -> None:
        self.popular = popular

    def next_read(self, view: View) -> GroupKey | None:
        if view.routed:
            return view.unread[0] if view.unread else None
        likely = [key for key in view.unread if key in self.popular]
        return likely[0] if likely and (view.free > 1 or likely[0] == view.unread[0]) else None


SCHEDULES = [OnDemand(), AfterRouting(), Early(), CarryOver(), LastFirst(), Popular(frozenset({GroupKey(1, 3)}))]
RETENTIONS = [Retention(), KeepFirst(1), KeepLatest()]


def request(
    lane: StreamingLane, x: np.ndarray, routes: dict[int, Routes]
) -> tuple[list[np.ndarray], list[Completion], Trace]:
    recorder = Recorder(lane.name)
    lane.start(recorder)
    outputs, completions = run_layers(lane, x, routes)
    provenance = {"banks": lane._plan.banks, "queue_depth": lane._plan.queue_depth}
    return outputs, completions, recorder.trace(provenance)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(
    schedule=st.sampled_from(SCHEDULES), retention=st.sampled_from(RETENTIONS), group=st.integers(1, 10),
    banks=st.integers(2, 5), queue=st.integers(1, 4), alpha=st.sampled_from([0.05, 1.0, 20.0]), seed=st.integers(0, 99),
)  # fmt: skip
def test_policies_change_what_is_read_and_no_bit_of_the_result(
    store: Store, schedule: Schedule, retention: Retention, group: int, banks: int, queue: int, alpha: float, seed: int
) -> None:
    lane = StreamingLane(store, plan(schedule, group, banks, queue, retention=retention))
    try:
        for number in range(3):  # requests in turn on one lane
            x, routes = inputs(seed + number, alpha)
            outputs, completions, trace = request(lane, x, routes)
            for found, expected in zip(outputs, resident(store, x, routes), strict=True):
                assert found.tobytes() == expected.tobytes()
            assert hazards(trace) == []
            for layer, completion in enumerate(completions):
                groups = np.unique(routes[layer].expert // group)
                sizes = {int(g): min(group, SPEC.experts - int(g) * group) * store.stride for g in groups}
                assert completion.bytes_read - completion.bytes_speculative + completion.bytes_kept == sum(
                    sizes.values()
                )
                reads = [span for span in trace.select("storage", layer)]
                assert len({span.group for span in reads}) == len(reads)  # each group once
                assert sum(span.group not in sizes for span in reads) <= banks
                assert sum(span.bytes or 0 for span in reads) == completion.bytes_read
                runs = [span.group for span in trace.select("expert", layer)]
                assert runs == sorted(sizes)
    finally:
        lane.close()


def test_carried_over_reads_the_next_layer_before_this_one_ends(store: Store) -> None:
    lane = StreamingLane(store, plan(CarryOver(), group=5, banks=3, queue=1))
    x, routes = inputs(0, 20.0)
    lane.start(recorder := Recorder(lane.name))
    lane.begin(0)
    lane.run(0, x, routes[0])
    assert {span.layer for span in recorder.trace({}).select("storage")} >= {0}
    ahead = [bank.key for bank in lane.pipeline.state.banks if bank.key is not None]
    assert ahead and {key.layer for key in ahead} == {1}
    lane.abort()  # between two layers, with reads of the next one under way
    outputs, _ = run_layers(lane, x, routes)
    lane.close()
    for found, expected in zip(outputs, resident(store, x, routes), strict=True):
        assert found.tobytes() == expected.tobytes()


def test_a_second_request_finds_what_was_kept(store: Store) -> None:
    lane = StreamingLane(store, plan(Early(), 2, 3, 2, retention=KeepFirst(2)))
    x, routes = inputs(1, 20.0)
    _, first, _ = request(lane, x, routes)
    _, second, trace = request(lane, x, routes)
    lane.close()
    assert sum(c.bytes_kept for c in first) == 0
    needed = {int(group) for group in np.unique(routes[0].expert // 2)}
    assert [c.bytes_kept for c in second] == [len(needed & {0, 1}) * 2 * store.stride, 0, 0]
    assert needed & {0, 1}
    assert {(span.layer, span.group) for span in trace.select("plan", name="kept")} == {(0, 0), (0, 1)}


class Greedy(Schedule):
    """Takes every bank for the last groups."""

    name = "greedy"

    def next_read(self, view: View) -> GroupKey | None:
        return view.unread[-1] if view.unread else None


class Idle(Schedule):
    """Never reads."""

    name = "idle"

    def next_read(self, view: View) -> GroupKey | None:
        return None


class Broken(Schedule):
    """Fails in the middle."""

    name = "broken"

    def next_read(self, view: View) -> GroupKey | None:
        if view.routed:
            raise ZeroDivisionError("of the policy")
        return view.unread[0]


@pytest.mark.parametrize(
    ("schedule", "error", "sentence"),
    [
        (Greedy(), PolicyError, "'greedy' asked to read group .* the last spare bank goes to the first group"),
        (Idle(), PolicyError, "'idle' starves the executor"),
        (Broken(), ZeroDivisionError, "of the policy"),
    ],
)
def test_a_wrong_policy_ends_the_request_and_leaves_the_lane_usable(
    store: Store, schedule: Schedule, error: type[Exception], sentence: str
) -> None:
    lane = StreamingLane(store, plan(schedule))
    x, routes = inputs(3, 20.0)
    for _ in range(2):
        with pytest.raises(error, match=sentence):
            run_layers(lane, x, routes)
        lane.abort()
    assert np.isnan(lane._arena.memory.view(np.float32)).all()
    lane.close()


class Pensive(Early):
    """Thinks for long about the read that follows the first."""

    def __init__(self) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()

    def next_read(self, view: View) -> GroupKey | None:
        if threading.current_thread() is not threading.main_thread():
            self.asked.set()
            self.answer.wait()
        return super().next_read(view)


def test_a_policy_that_does_not_answer_holds_up_no_end(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, real = threading.Event(), Loader._read

    def later(self: Loader, read: GroupRead, asked_ns: int) -> tuple[int, int, int]:
        begun.wait()
        return real(self, read, asked_ns)

    monkeypatch.setattr(Loader, "_read", later)
    schedule = Pensive()
    lane = StreamingLane(store, plan(schedule))
    lane.begin(0)
    begun.set()  # from here on it is asked by the loader's threads
    schedule.asked.wait()
    with pytest.raises(EStreamError, match=r"schedule 'Pensive' or retention 'nothing' hasn't answered for 0\.5 s"):
        lane.abort()
    lane.close()
    schedule.answer.set()


# ---- faults of the implementation, seen by the live checker


def publishes_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipeline takes a read for done as soon as it is submitted."""
    real = Pipeline._start_read

    def start(self: Pipeline, key: GroupKey, bank: int) -> Any:
        future = real(self, key, bank)
        self.state = self.state._replace(
            banks=tuple(b._replace(missing=0) if at == bank else b for at, b in enumerate(self.state.banks))
        )
        return future

    monkeypatch.setattr(Pipeline, "_start_read", start)
    monkeypatch.setattr(Pipeline, "_arrived", lambda self, done, **rest: None)


def releases_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pipeline takes an execution for done as soon as it begins."""
    real = Pipeline.executing

    def begun(self: Pipeline, key: GroupKey, bank: int) -> None:
        real(self, key, bank)
        with self._changed:
            self.state = self.state._replace(running=-1, invocations=0)
            self._advance()

    monkeypatch.setattr(Pipeline, "executing", begun)


def mixes_banks_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The executor is sent to another bank than the one that its group is in."""
    real = Pipeline.next_ready

    def other(self: Pipeline) -> tuple[int, int] | None:
        ready = real(self)
        return ready if ready is None else (ready[0], (ready[1] + 1) % 3)

    monkeypatch.setattr(Pipeline, "next_ready", other)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (publishes_early, "early publish|double owner|queue overrun"),
        (releases_early, "early reuse"),
        (mixes_banks_up, "wrong data|early publish"),
    ],
)
def test_a_fault_of_the_pipeline_is_a_hazard_and_never_a_result(
    store: Store, fault: Callable[[pytest.MonkeyPatch], None], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lane = StreamingLane(store, plan(Early(), group=1, banks=3, queue=3))
    monkeypatch.setattr(ResidencyTable, "_expect", lambda self, bank, state, action: None)  # the other line of defence
    fault(monkeypatch)
    with pytest.raises(HazardError, match=f"hazard, ({kind}): "):
        run_layers(lane, *inputs(4, 20.0))
    monkeypatch.undo()
    lane.close()
    assert lane.checker is not None and len(lane.checker.hazards) == 1


def test_the_checker_is_off_unless_asked_for(store: Store) -> None:
    lane = StreamingLane(store, LanePlan("early", 2, 3, 2, TOKENS, 64))
    assert lane.checker is None
    lane.close()


def test_what_was_kept_is_given_up_with_a_run_that_went_wrong(store: Store) -> None:
    lane = StreamingLane(store, plan(Early(), 2, 3, 2, retention=KeepLatest()))
    x, routes = inputs(5, 20.0)
    request(lane, x, routes)
    lane.begin(0)
    lane.abort()
    _, completions, _ = request(lane, x, routes)
    lane.close()
    assert sum(c.bytes_kept for c in completions) == 0
