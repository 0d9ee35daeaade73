"""The pipeline on real threads: loader and executor carry out what policies and rules decide (paper section 5)."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial

from estream_lab.errors import EStreamError
from estream_lab.experts.arena import Arena
from estream_lab.experts.decide import Policies, advance, tell
from estream_lab.experts.hazards import HazardChecker
from estream_lab.experts.protocol import (
    AVAILABLE,
    NONE,
    Arrived,
    Begin,
    Completed,
    End,
    GroupKey,
    Keep,
    Limits,
    Move,
    Publish,
    Read,
    Release,
    Routed,
    Run,
    at_rest,
)
from estream_lab.experts.residency import ResidencyTable
from estream_lab.experts.rules import refusal
from estream_lab.streaming.loader import GroupRead, Loader
from estream_lab.streaming.plan import WaitLimit
from estream_lab.streaming.store import LayerRecords
from estream_lab.trace import Recorder
from estream_lab.workers import LISTEN_SECONDS, SETTLE_SECONDS, check_stopped


class Pipeline:
    """Carries out the moves of `experts.protocol`: reads go to the loader, which tells of their ends on its threads.

    All decisions are made under one lock; the executor's thread computes outside it, so that a completed read starts
    the next one while a group executes.

    Args:
        layers: the store's records.
        policies: when to read what, and what to keep.
        loader, arena: what reads, and into what.
        residency: the placement map that executions see.
        queue_depth: Q.
        wait: how long to wait for one group.
    """

    def __init__(
        self,
        layers: Sequence[LayerRecords],
        policies: Policies,
        loader: Loader,
        arena: Arena,
        queue_depth: int,
        wait: WaitLimit,
        checker: HazardChecker | None = None,
    ) -> None:
        self._layers, self._policies, self._loader, self._arena = layers, policies, loader, arena
        self._limits = Limits(queue_depth, tuple(records.groups(arena.group_size) for records in layers))
        self._wait, self._checker = wait, checker
        self._recorder = Recorder("none")
        self._changed = threading.Condition()
        self._age = 0  # reads of an earlier age have been given up
        self.rest()

    def rest(self) -> None:
        """Forget everything: all banks are empty, nothing is under way. No read may be outstanding.

        An interrupt may have come between any two moves, so a new state rather than an orderly end of the old one.
        """
        experts = max(len(records.order) for records in self._layers)
        self.residency = ResidencyTable(len(self._layers), experts, self._arena.banks, self._arena.group_size)
        self.state = at_rest(self._arena.banks)
        self._run: Run | None = None
        self._error: BaseException | None = None
        self._bytes: dict[GroupKey, int] = {}  # read for a layer that hasn't ended
        self._needed: tuple[int, ...] = ()
        if self._checker is not None:
            self._checker.rest()

    @property
    def idle(self) -> bool:
        """No layer is under way, no read outstanding, and every bank is empty or kept."""
        resting = all(bank.state is AVAILABLE or bank.kept for bank in self.state.banks)
        return self.state.layer == NONE and self._error is None and resting

    def start(self, recorder: Recorder) -> None:
        """A new request: its spans go to ``recorder``, first of all what is in the banks from before."""
        with self._changed:
            self._recorder, now = recorder, recorder.now()
            for at, bank in enumerate(self.state.banks):
                if bank.kept and bank.key is not None:
                    recorder.add("plan", "kept", now, now, layer=bank.key.layer, group=bank.key.group, bank=at)

    def begin(self, layer: int, ahead: int = NONE) -> None:
        """The layer's non-expert work begins: early reads start. ``ahead`` is the layer after it."""
        with self._changed:
            self._tell(Begin(layer, ahead))
            self._advance()

    def routes_known(self, layer: int, rows: Mapping[int, int]) -> None:
        """The router has run; ``rows`` are the groups with work, in visit order, and how many routes each has."""
        with self._changed:  # spans too: a read that a loader thread starts is told before the routes, or after them
            self._needed = tuple(rows)
            self._tell(Routed(layer, self._needed))
            now = self._recorder.now()
            for group, count in rows.items():
                self._recorder.add("plan", "routed", now, now, layer=layer, group=group, rows=count)
            self._advance()

    def next_ready(self) -> tuple[int, int] | None:
        """Wait for the next group in visit order: (group, bank), InUse from now on; None when all have run.

        Raises:
            EStreamError: a read failed, a policy broke a rule, or nothing came within the wait limit.
        """
        with self._changed:
            if self._run is None and self._error is None:
                if not self.state.to_run:
                    return None
                key = GroupKey(self.state.layer, self.state.to_run[0])
                self._await(lambda: self._run is not None, str(key), key)
            if self._error is not None:
                raise self._error
            assert self._run is not None
            run, self._run = self._run, None
            return run.key.group, run.bank

    def was_read(self, key: GroupKey) -> bool:
        """Whether ``key`` was read for this pass over its layer, not kept from an earlier one."""
        return key in self._bytes

    def executing(self, key: GroupKey, bank: int) -> None:
        """The kernel starts on ``bank`` now."""
        if self._checker is not None:
            with self._changed:
                self._checker.observe(Run(key, bank), self._recorder.now())

    def run_done(self, bank: int) -> None:
        """The last invocation on ``bank`` has completed."""
        with self._changed:
            if self._checker is not None:
                self._checker.observe(Completed(bank), self._recorder.now())
            self.state = tell(self.state, Completed(bank), self._limits)
            self._advance()

    def end(self, layer: int) -> tuple[int, int]:
        """Wait until the layer's banks are given up, among them those that were read early and aren't needed.

        Returns:
            Bytes read for the layer, and those among them of groups without routes.
        """
        with self._changed:
            self._await(self._may_end, f"unneeded reads of layer {layer}", None)
            if self._error is not None:
                raise self._error
            self._tell(End(layer))
            now = self._recorder.now()
            self._recorder.add("plan", "ended", now, now, layer=layer)
            ours = {key: self._bytes.pop(key) for key in list(self._bytes) if key.layer == layer}
            return sum(ours.values()), sum(count for key, count in ours.items() if key.group not in self._needed)

    def give_up(self) -> None:
        """Start nothing more and take no notice of reads that end from now on.

        Raises:
            EStreamError: a policy that is being asked doesn't answer.
        """
        if not self._changed.acquire(timeout=SETTLE_SECONDS):
            asked = f"schedule '{self._policies.schedule.name}' or retention '{self._policies.retention.name}'"
            raise EStreamError(f"{asked} hasn't answered for {SETTLE_SECONDS:g} s: mend it, and open another engine")
        try:
            self._age += 1
            self._error = self._error or EStreamError("the run was given up")
        finally:
            self._changed.release()

    def _may_end(self) -> bool:
        return refusal(self.state, End(self.state.layer), self._limits) is None

    def _await(self, condition: Callable[[], bool], what: str, key: GroupKey | None) -> None:
        start = self._recorder.now()
        deadline = time.monotonic() + self._wait.seconds
        waited = False
        while not condition() and self._error is None:
            waited = True
            if (left := deadline - time.monotonic()) <= 0:
                raise EStreamError(
                    f"gave up waiting for {what} after {self._wait.seconds:g} s: storage doesn't answer, check the disk"
                )
            check_stopped()
            self._changed.wait(min(left, LISTEN_SECONDS))
        if waited:
            layer, group = (self.state.layer, None) if key is None else key
            self._recorder.add("wait", "wait for group", start, self._recorder.now(), layer=layer, group=group)

    def _tell(self, move: Move) -> None:
        """Something has happened. The lock is held."""
        if self._checker is not None:
            self._checker.observe(move, self._recorder.now())
        self.state = tell(self.state, move, self._limits)

    def _advance(self) -> None:
        """Carry out what is decided now. The lock is held."""
        if self._error is not None:
            return
        self.state, moves = advance(self.state, self._limits, self._policies)
        started = []
        for move in moves:
            match move:
                case Read(key, bank):
                    started.append((self._start_read(key, bank), key, bank))
                case Publish(_, bank):
                    self.residency.slice_arrived(bank)
                case Run(_, bank):
                    self.residency.use(bank)
                    self._run = move
                    self._changed.notify_all()
                case Keep(_, bank):
                    self.residency.keep(bank)
                case Release(_, bank):
                    self.residency.release(bank)
                    self._arena.release(bank)
        for future, key, bank in started:  # last: a read that is done already is handled at once, and advances again
            future.add_done_callback(partial(self._arrived, key=key, bank=bank, age=self._age))

    def _start_read(self, key: GroupKey, bank: int) -> "Future[tuple[int, int, int]]":
        records, size = self._layers[key.layer], self._arena.group_size
        experts = records.group_experts(key.group, size)
        self.residency.assign(bank, key.layer, experts)
        now = self._recorder.now()
        self._recorder.add("plan", "issued", now, now, layer=key.layer, group=key.group, bank=bank)
        if self._checker is not None:
            self._checker.observe(Read(key, bank), now)
        views = self._arena.bank_view(bank, len(experts), records.record.stride)
        return self._loader.submit(GroupRead(key.layer, key.group, size, views))

    def _arrived(self, done: "Future[tuple[int, int, int]]", *, key: GroupKey, bank: int, age: int) -> None:
        """A read ended, well or not; runs on the loader's thread, or inline where it had ended already."""
        with self._changed:
            if age != self._age:
                return
            try:
                start, end, count = done.result()
                layer, group = key
                self._recorder.add("storage", "read", start, end, layer=layer, group=group, bank=bank, bytes=count)
                self._bytes[key] = self._bytes.get(key, 0) + count
                self._tell(Arrived(bank))
                self._advance()
            except BaseException as error:  # a future only logs what its callback raises: the executor must hear of it
                self._error = self._error or error
            self._changed.notify_all()
