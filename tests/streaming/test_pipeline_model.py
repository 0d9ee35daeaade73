"""The real pipeline driven along every transition of the explored protocol: the two can't drift apart.

The loader is one that ends its reads when it is told to; everything else (pipeline, residency, arena with poison) is
what runs. After each move the pipeline must be in the state that the model is in, and the arena must hold what the
model says: each bank the bytes of its group, every available bank poison.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts.arena import Arena
from estream_lab.experts.decide import Policies
from estream_lab.experts.exploration import Exploration, Setting, explore
from estream_lab.experts.hazards import HazardChecker, HazardError
from estream_lab.experts.protocol import (
    Arrived,
    Begin,
    Completed,
    End,
    Failed,
    GroupKey,
    Move,
    Read,
    Reset,
    Routed,
    State,
    Stop,
    apply,
    at_rest,
)
from estream_lab.experts.residency import ResidencyError, SlotState
from estream_lab.experts.retention import KeepFirst, KeepLatest
from estream_lab.experts.schedule import AfterRouting, CarryOver, Early, OnDemand
from estream_lab.experts.shape import ExpertShape, RecordClass
from estream_lab.streaming.loader import GroupRead
from estream_lab.streaming.pipeline import Pipeline
from estream_lab.streaming.plan import WaitLimit
from estream_lab.streaming.store import LayerRecords
from estream_lab.trace import Recorder

RECORD = RecordClass.of(ExpertShape(32, 32, ("f32", "f32", "f32")))


class HandLoader:
    """Reads that end when the test says so."""

    def __init__(self) -> None:
        self.reads: dict[GroupKey, tuple[GroupRead, Future[tuple[int, int, int]]]] = {}

    def submit(self, read: GroupRead) -> "Future[tuple[int, int, int]]":
        key = GroupKey(read.layer, read.group)
        assert key not in self.reads, f"{key} is being read already"
        done: Future[tuple[int, int, int]] = Future()
        self.reads[key] = (read, done)
        return done

    def arrive(self, key: GroupKey) -> None:
        read, done = self.reads.pop(key)
        for view in read.views:
            view[:] = bytes([mark(key)]) * len(view)
        now = Recorder.now()
        done.set_result((now, now, sum(len(view) for view in read.views)))

    def fail(self, key: GroupKey) -> None:
        self.reads.pop(key)[1].set_exception(EStreamError(f"{key} can't be read"))


def mark(key: GroupKey) -> int:
    """The byte that stands for a group's weights."""
    return 16 * key.layer + key.group + 1


class Rig:
    """A pipeline, its hand-worked loader, and the model's state beside it."""

    def __init__(self, setting: Setting) -> None:
        order = np.arange(setting.experts, dtype=np.int32)
        layers = [LayerRecords(RECORD, 0, order, (0,) * setting.experts) for _ in setting.limits.groups]
        self.arena = Arena(setting.banks, setting.group_size, RECORD.stride, poison=True)
        self.loader: Any = HandLoader()
        self.setting = setting
        assert setting.policies is not None
        checker = HazardChecker(setting.banks, setting.queue_depth, strict=True)
        self.pipeline = Pipeline(
            layers, setting.policies, self.loader, self.arena, setting.queue_depth, WaitLimit(5.0), checker
        )
        self.pipeline.start(Recorder("test"))
        self.model: State = at_rest(setting.banks)
        self.needed: dict[int, tuple[int, ...]] = {}
        self.read: list[GroupKey] = []
        self.given_up = False

    def carry_out(self, move: Move) -> None:
        """Let the outside's moves happen to the pipeline; its own decisions follow by themselves."""
        bank = self.model.banks[move.bank] if isinstance(move, Arrived | Failed | Completed) else None
        self.model = apply(self.model, move)
        match move:
            case Begin(layer, ahead):
                self.pipeline.begin(layer, ahead)
            case Routed(layer, needed):
                self.needed[layer] = needed
                self.pipeline.routes_known(layer, dict.fromkeys(needed, 1))
            case Read(key, _, _):
                self.read.append(key)
            case Arrived(at):
                assert bank is not None and bank.key is not None
                if not self.model.banks[at].missing:  # a group arrives in one read
                    self.loader.arrive(bank.key)
            case Failed():
                assert bank is not None and bank.key is not None
                self.loader.fail(bank.key)
                self.given_up = True  # and stops by itself
            case Completed(at):
                if self.model.running != at and not self.given_up:
                    self.execute(at)
            case End(layer):
                self.end(layer)
            case Stop():
                self.given_up = True
                if not any(b.failed for b in self.model.banks):
                    self.pipeline.give_up()
                with pytest.raises(EStreamError, match=r"given up|can't be read"):
                    self.pipeline.next_ready()
            case Reset():
                assert not self.loader.reads
                self.pipeline.rest()
                for at in range(self.setting.banks):
                    self.arena.release(at)
                self.given_up = False
                self.read = []

    def execute(self, at: int) -> None:
        ready = self.pipeline.next_ready()
        assert ready is not None and ready[1] == at
        key = GroupKey(self.model.layer, ready[0])
        self.pipeline.executing(key, at)
        assert (self.bytes_of(at, key) == mark(key)).all()  # the kernel sees its own weights
        self.pipeline.run_done(at)

    def end(self, layer: int) -> None:
        read, speculative = self.pipeline.end(layer)
        ours = [key for key in self.read if key.layer == layer]
        self.read = [key for key in self.read if key.layer != layer]
        assert read == sum(self.size(key) for key in ours)
        assert speculative == sum(self.size(key) for key in ours if key.group not in self.needed[layer])
        assert len({*ours}) == len(ours)

    def size(self, key: GroupKey) -> int:
        return self.setting.slices(key) * RECORD.stride

    def bytes_of(self, bank: int, key: GroupKey) -> np.ndarray:
        start = bank * self.setting.group_size * RECORD.stride
        return np.asarray(self.arena.memory[start : start + self.size(key)])

    def agree(self) -> None:
        """Pipeline, residency table, loader and arena are where the model is."""
        if self.given_up:
            return
        assert normal(self.pipeline.state) == normal(self.model)
        outstanding = {bank.key for bank in self.model.banks if bank.key is not None and bank.missing}
        assert set(self.loader.reads) == outstanding
        for at, bank in enumerate(self.model.banks):
            assert self.pipeline.residency.bank_state(at) is bank.state
            if bank.state in (SlotState.READY, SlotState.IN_USE) and bank.key is not None:
                assert (self.bytes_of(at, bank.key) == mark(bank.key)).all()
            elif bank.state is SlotState.AVAILABLE:
                size = self.setting.group_size * RECORD.stride
                assert (self.arena.memory[at * size : (at + 1) * size] == 0xFF).all()
        for layer in range(len(self.setting.limits.groups)):
            homes = self.pipeline.residency.placement(layer)
            visible = {key.group for key in self.published() if key.layer == layer}
            size = self.setting.group_size
            assert {int(e) // size for e in np.flatnonzero(homes >= 0)} == visible

    def published(self) -> set[GroupKey]:
        states = (SlotState.READY, SlotState.IN_USE)
        return {bank.key for bank in self.model.banks if bank.key is not None and bank.state in states}


def normal(state: State) -> State:
    """A state without what only the model knows: slices within a read, and invocations within a group."""
    banks = tuple(bank._replace(missing=min(bank.missing, 1)) for bank in state.banks)
    return state._replace(banks=banks, invocations=min(state.invocations, 1))


def walks(found: Exploration) -> Iterator[tuple[Move, ...]]:
    """Walks from the start to an end that together take every transition."""
    after: dict[int, list[tuple[Move, int]]] = {}
    for source, move, target in found.edges:
        after.setdefault(source, []).append((move, target))
    left = {(source, number) for source, ways in after.items() for number in range(len(ways))}
    for source, number in sorted(left):
        if (source, number) not in left:
            continue
        moves, state = list(found.way(source)), source
        while ways := after.get(state):
            fresh = [n for n in range(len(ways)) if (state, n) in left]
            number = number if state == source and (source, number) in left else (fresh or [0])[0]
            left.discard((state, number))
            move, state = ways[number]
            moves.append(move)
        yield tuple(moves)


TOLD = Begin | Routed | Arrived | Failed | Completed | End | Stop | Reset  # what the outside tells

ALL = ((), (0,), (1,), (0, 2), (0, 1, 2))
CASES = {
    "on demand": Setting(5, 2, 2, 2, policies=Policies(OnDemand()), needed=ALL, stop=True),
    "after routing": Setting(5, 2, 2, 2, policies=Policies(AfterRouting()), needed=ALL, fail=True),
    "early": Setting(5, 2, 2, 2, policies=Policies(Early()), invocations=2, fail=True, stop=True),
    "early, one bank": Setting(7, 2, 1, 1, policies=Policies(Early()), stop=True),
    "carried over": Setting(
        3, 2, 2, 2, passes=(0, 1), ahead=True, policies=Policies(CarryOver()), needed=((0,), (0, 1)), stop=True
    ),
    "carried over, a read fails": Setting(
        3, 2, 2, 2, passes=(0, 1), ahead=True, policies=Policies(CarryOver()), needed=((0,), (0, 1)), fail=True
    ),
    "kept first": Setting(
        3, 1, 3, 2, passes=(0, 1, 0), policies=Policies(Early(), KeepFirst(1)), needed=((1,), (0, 2))
    ),
    "kept latest": Setting(
        3, 1, 2, 2, passes=(0, 1, 0), ahead=True, policies=Policies(CarryOver(), KeepLatest()), needed=((1,), (0, 2))
    ),
    "kept latest, a read fails": Setting(
        3,
        1,
        2,
        2,
        passes=(0, 1, 0),
        ahead=True,
        policies=Policies(CarryOver(), KeepLatest()),
        needed=((1,), (0, 2)),
        fail=True,
        stop=True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_pipeline_follows_every_transition_of_the_model(name: str) -> None:
    found = explore(CASES[name], keep_edges=True)
    assert found.trouble == {}
    targets = {(source, move): target for source, move, target in found.edges}
    taken = set()
    for walk in walks(found):
        follow(CASES[name], walk)
        state = 0
        for move in walk:
            taken.add((state, move))
            state = targets[state, move]
    assert taken == set(targets) and len(targets) == len(found.edges)


def follow(setting: Setting, walk: tuple[Move, ...]) -> None:
    """Drive a new pipeline along a walk."""
    rig = Rig(setting)
    for move, following in zip(walk, (*walk[1:], None), strict=True):
        rig.carry_out(move)
        if following is None or isinstance(following, TOLD):  # the pipeline's own decisions have been carried out
            rig.agree()


def test_routes_are_told_and_recorded_before_any_thread_decides_with_them() -> None:
    """Else a read that was decided before the routes were known is dated after them: a false hazard in the trace."""
    rig = Rig(Setting(5, 2, 2, 2, policies=Policies(Early())))

    def somebody_else_decides() -> bool:
        free = rig.pipeline._changed.acquire(blocking=False)
        if free:
            rig.pipeline._changed.release()
        return free

    class Watched(Recorder):
        def add(self, unit: str, name: str, *times: int, **details: Any) -> None:
            seen[name] = others.submit(somebody_else_decides).result()
            super().add(unit, name, *times, **details)

    seen: dict[str, bool] = {}
    with ThreadPoolExecutor(1) as others:
        rig.pipeline.start(Watched("test"))
        rig.carry_out(Begin(0))
        rig.carry_out(Routed(0, (0, 2)))
    assert seen == {"issued": False, "routed": False}


def test_a_read_that_fails_is_the_error_even_if_nothing_needed_it() -> None:
    rig = Rig(Setting(3, 1, 2, 2, policies=Policies(Early())))
    rig.pipeline.begin(0)
    rig.loader.arrive(GroupKey(0, 0))
    rig.pipeline.routes_known(0, {0: 1})
    rig.pipeline.next_ready()
    rig.pipeline.executing(GroupKey(0, 0), 0)
    rig.pipeline.run_done(0)
    assert rig.pipeline.next_ready() is None
    rig.loader.fail(GroupKey(0, 1))
    with pytest.raises(EStreamError, match="group 1 of layer 0 can't be read"):
        rig.pipeline.end(0)
    assert not rig.pipeline.idle


def reversed_banks(pipeline: Pipeline) -> None:
    pipeline.state = pipeline.state._replace(free=tuple(reversed(pipeline.state.free)))


def unpublished(pipeline: Pipeline) -> None:
    pipeline.residency._placement[:] = -1


def eager(pipeline: Pipeline) -> None:
    pipeline._limits = pipeline._limits._replace(queue_depth=9)


def forgetful(pipeline: Pipeline) -> None:
    pipeline._arena.memory[:] = 0xFF


@pytest.mark.parametrize("fault", [reversed_banks, unpublished, eager, forgetful])
def test_a_pipeline_that_drifts_is_seen(fault: Callable[[Pipeline], None], monkeypatch: pytest.MonkeyPatch) -> None:
    real = Pipeline._advance

    def drifting(self: Pipeline) -> None:
        real(self)
        fault(self)

    setting = Setting(5, 1, 3, 1, policies=Policies(Early()), needed=((0, 1, 3, 4),))
    found = explore(setting, keep_edges=True)
    for walk in walks(found):
        follow(setting, walk)
    monkeypatch.setattr(Pipeline, "_advance", drifting)
    with pytest.raises((AssertionError, ResidencyError, HazardError)):
        for walk in walks(found):
            follow(setting, walk)
