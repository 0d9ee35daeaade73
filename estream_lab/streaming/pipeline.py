"""One layer's pipeline on real threads: loader and executor carry out the schedule's decisions (paper section 5)."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

from estream_lab.errors import EStreamError
from estream_lab.experts.arena import Arena
from estream_lab.experts.residency import ResidencyTable
from estream_lab.experts.schedule import LayerSchedule, Read, Release, Run
from estream_lab.streaming.loader import GroupRead, Loader
from estream_lab.streaming.plan import WaitLimit
from estream_lab.streaming.store import LayerRecords
from estream_lab.trace import Recorder


class LayerPipeline:
    """Carries out a `LayerSchedule`: reads go to the loader, and their completions are handled on its threads.

    All decisions are made under one lock; the executor's thread computes outside it, so that a completed read starts
    the next one while a group executes.
    """

    def __init__(
        self,
        layer: int,
        records: LayerRecords,
        schedule: LayerSchedule,
        loader: Loader,
        residency: ResidencyTable,
        arena: Arena,
        recorder: Recorder,
        wait: WaitLimit,
    ) -> None:
        self.layer, self._records, self._schedule = layer, records, schedule
        self._loader, self._residency, self._arena = loader, residency, arena
        self._recorder, self._wait = recorder, wait
        self._changed = threading.Condition()
        self._run: tuple[int, int] | None = None
        self._error: BaseException | None = None
        self._cancelled = False
        self.bytes_read = 0
        self._bytes: dict[int, int] = {}

    @property
    def bytes_speculative(self) -> int:
        """Bytes of groups that were read early and turned out to have no route."""
        return sum(self._bytes[group] for group in self._schedule.speculative if group in self._bytes)

    def start(self) -> None:
        """The layer's non-expert work begins: early reads start."""
        with self._changed:
            self._advance()

    def routes_known(self, needed: Sequence[int]) -> None:
        """The router has run; ``needed`` are the groups with work."""
        with self._changed:
            self._schedule.routes_known(needed)
            self._advance()

    def next_ready(self) -> tuple[int, int] | None:
        """Wait for the next group in order: (group, bank), InUse from now on; None when all have run.

        Raises:
            EStreamError: a read failed, or nothing came within the wait limit.
        """
        with self._changed:
            if self._run is None and self._error is None:
                group = self._schedule.next_to_run
                if group is None:
                    return None
                self._await(lambda: self._run is not None, f"group {group} of layer {self.layer}", group)
            if self._error is not None:
                raise self._error
            assert self._run is not None
            ready, self._run = self._run, None
            return ready

    def run_done(self, group: int) -> None:
        """The last invocation of ``group`` has completed."""
        with self._changed:
            bank = self._schedule.run_done(group)
            self._give_up(bank)
            self._advance()

    def drain(self) -> None:
        """Wait for reads that were started and aren't needed, and give their banks up."""
        with self._changed:
            self._await(lambda: self._schedule.done, f"unneeded reads of layer {self.layer}", None)
            if self._error is not None:
                raise self._error

    def cancel(self) -> None:
        """Start nothing more and take no notice of reads that end from now on."""
        with self._changed:
            self._cancelled = True

    def _await(self, condition: Callable[[], bool], what: str, group: int | None) -> None:
        start = self._recorder.now()
        deadline = time.monotonic() + self._wait.seconds
        waited = False
        while not condition() and self._error is None:
            waited = True
            if (left := deadline - time.monotonic()) <= 0:
                raise EStreamError(
                    f"gave up waiting for {what} after {self._wait.seconds:g} s: storage doesn't answer, check the disk"
                )
            self._changed.wait(left)
        if waited:
            self._recorder.add("wait", "wait for group", start, self._recorder.now(), layer=self.layer, group=group)

    def _advance(self) -> None:
        """Carry out what may start now. The lock is held."""
        if self._cancelled or self._error is not None:
            return
        started = []
        for action in self._schedule.advance():
            match action:
                case Read(group, bank):
                    started.append((self._start_read(group, bank), group, bank))
                case Run(group, bank):
                    self._residency.use(bank)
                    self._run = (group, bank)
                    self._changed.notify_all()
                case Release(_, bank):
                    self._give_up(bank)
        for future, group, bank in started:  # last: a read that is done already is handled at once, and advances again
            future.add_done_callback(partial(self._arrived, group=group, bank=bank))

    def _start_read(self, group: int, bank: int) -> "Future[tuple[int, int, int]]":
        size, stride = self._arena.group_size, self._records.record.stride
        experts = self._records.group_experts(group, size)
        self._residency.assign(bank, self.layer, experts)
        return self._loader.submit(
            GroupRead(self.layer, group, size, self._arena.bank_view(bank, len(experts), stride))
        )

    def _arrived(self, done: "Future[tuple[int, int, int]]", *, group: int, bank: int) -> None:
        """A read ended, well or not; runs on the loader's thread, or inline where it had ended already."""
        with self._changed:
            if self._cancelled:
                return
            try:
                start, end, count = done.result()
                self._recorder.add("storage", "read", start, end, layer=self.layer, group=group, bank=bank, bytes=count)
                self._bytes[group] = count
                self.bytes_read += count
                self._residency.slice_arrived(bank)
                self._schedule.read_done(group)
                self._advance()
            except BaseException as error:  # a future only logs what its callback raises: the executor must hear of it
                self._error = self._error or error
            self._changed.notify_all()

    def _give_up(self, bank: int) -> None:
        self._residency.release(bank)
        self._arena.release(bank)
