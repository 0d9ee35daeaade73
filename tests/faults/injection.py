"""Faults planted where a read meets the system, at a chosen phase of a prefill.

An `Injector` stands between the loader and ``os.preadv``, follows what the executor does, and lets one fault act on the
first read of a phase. Faults that storage can really have (a file cut off, removed, replaced) are done to real files.
"""

import ctypes
import errno
import fcntl
import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

from estream_lab.experts.graph import ExpertGraph
from estream_lab.models.layers import Decoder
from estream_lab.streaming import Store, StreamingLane
from estream_lab.streaming import files as files_module
from estream_lab.streaming.loader import _window

PATIENCE = 60.0  # seconds that a planted fault waits for its moment: longer is a hang of the test itself

Views = list[memoryview]
Preadv = Callable[[int, Views, int], int]


class Site:
    """What the executor is at, followed by wrappers around its steps; all of it may be waited for."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self.step, self.layer, self.executed = "open", -1, 0

    def tell(self, **facts: Any) -> None:
        """Something is different now."""
        with self._changed:
            self.__dict__.update(facts)
            self._changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        """Until ``condition``; the fault's own deadline ends a test that would hang."""
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), "the planted fault's moment never came"


class Injector:
    """While entered, reads of ``store`` go through `preadv`, and ``fault`` acts from the first read of ``phase`` on.

    Args:
        store: whose reads; others' are left alone.
        phase: says of a read, from its layer, its group and the site, whether it belongs.
        fault: takes the read's place.
        hold: an early read of that (layer, group) is held until the executor has run that many groups of the layer.
        meet: in this layer, the executor waits in its attention until the fault has acted.
    """

    def __init__(
        self,
        store: Store,
        phase: "Callable[[Site, int, int], bool]",
        fault: "Fault",
        hold: tuple[int, int, int] | None = None,
        meet: int | None = None,
    ) -> None:
        self.store, self.site, self.acted = store, Site(), threading.Event()
        self._phase, self._fault, self._hold, self._meet = phase, fault, hold, meet
        self._real = os.preadv
        self._patches = ExitStack()
        self._lock = threading.Lock()
        self._lifted = False

    def __enter__(self) -> Self:
        site, attend, run, invoke = self.site, Decoder.attend, StreamingLane.run, ExpertGraph.invoke

        def attend_here(decoder: Decoder, layer: int, *rest: Any) -> Any:
            site.tell(step="attend", layer=layer, executed=0)
            if layer == self._meet:
                assert self.acted.wait(PATIENCE), "no read began before the routes were known"
            return attend(decoder, layer, *rest)

        def run_here(lane: StreamingLane, layer: int, *rest: Any) -> Any:
            site.tell(step="run", layer=layer)
            return run(lane, layer, *rest)

        def invoke_here(graph: ExpertGraph, *rest: Any) -> int:
            done = invoke(graph, *rest)
            site.tell(executed=site.executed + 1)
            return done

        self._fault.begin(self)
        enter = self._patches.enter_context
        enter(patch.object(files_module.os, "preadv", self.preadv))
        enter(patch.object(Decoder, "attend", attend_here))
        enter(patch.object(StreamingLane, "run", run_here))
        enter(patch.object(ExpertGraph, "invoke", invoke_here))
        return self

    def __exit__(self, *error: object) -> None:
        self._patches.close()
        self._lifted = True
        self._fault.end(self)

    def place(self, offset: int) -> tuple[int, int]:
        """(layer, place in its order) of the record at ``offset``."""
        for layer, records in enumerate(self.store.layers):
            if records.offset <= offset < records.end:
                return layer, (offset - records.offset) // records.record.stride
        raise AssertionError(f"a read at {offset}, where no record is")

    def preadv(self, fd: int, views: Views, offset: int) -> int:
        """What the loader calls instead of the system."""
        if os.fstat(fd).st_ino != self._fault.inode:
            return self._real(fd, views, offset)
        layer, record = self.place(offset)
        if self._hold is not None and (layer, record) == self._hold[:2]:
            self.site.wait(lambda: self.site.executed >= self._hold[2])  # type: ignore[index]
        with self._lock:
            if not self.acted.is_set() and self._phase(self.site, layer, record):
                self.acted.set()
        if not self.acted.is_set() or self._lifted:
            return self._real(fd, views, offset)
        return self._fault.read(self, fd, views, offset)

    def real(self, fd: int, views: Views, offset: int) -> int:
        """The read itself."""
        return self._real(fd, views, offset)


class Fault:
    """No fault at all; others derive from it. An object serves one run.

    Attributes:
        name: as the table prints it.
        expected: "result", "stopped", or a regular expression of the one sentence.
        slow_to_notice: only a deadline shows it, or that a thread can't be stopped.
        wait_limit: that deadline, in seconds.
        leaves_store: the store's files are as before.
    """

    name = "arena full"
    expected = "result"
    slow_to_notice = False
    wait_limit = 0.2

    @property
    def outcome(self) -> str:
        """What is expected, in a word: "same bits", "stopped" or "error"."""
        return {"result": "same bits", "stopped": "stopped"}.get(self.expected, "error")

    def begin(self, injector: Injector) -> None:
        """Called before the run."""
        self.inode = os.stat(injector.store.experts_path).st_ino
        self.calls = 0
        self._one = threading.Lock()

    def first(self, act: Callable[[], object]) -> None:
        """``act`` at the first read of the phase, whichever thread's it is; the others wait for it."""
        with self._one:
            self.calls += 1
            if self.calls == 1:
                act()

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """What a read gives from the phase on."""
        return injector.real(fd, views, offset)

    def end(self, injector: Injector) -> None:
        """The fault is lifted: the same engine must work again."""


class Short(Fault):
    """Reads that stop anywhere, with rubbish behind what they say they read."""

    name = "short reads"

    def begin(self, injector: Injector) -> None:
        """See `Fault`."""
        super().begin(injector)
        self._lengths = random.Random(3)

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""
        got = injector.real(fd, views, offset)
        count = min(got, self._lengths.choice([1, 7, 511, 512, 4095, 4096, 4097, 5000, 8192, 1 << 20]))
        for view in _window(views, count, got - count) if got > count else []:
            view[:] = b"\xaa" * len(view)
        return count


class Errno(Fault):
    """An error number: the first ``times`` reads, or for ever."""

    def __init__(self, name: str, number: int, expected: str, times: int = 1 << 30) -> None:
        self.name, self.number, self.expected, self.times = name, number, expected, times

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""
        with self._one:
            self.calls += 1
            over = self.calls > self.times
        if over:
            return injector.real(fd, views, offset)
        raise OSError(self.number, os.strerror(self.number))


class Slow(Fault):
    """Storage that takes its time."""

    name = "slow reads"

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""
        threading.Event().wait(0.01)
        return injector.real(fd, views, offset)


class Hung(Fault):
    """A read that doesn't return before the fault is lifted, and one run later."""

    name = "hung read"
    expected = r"gave up waiting for .+ after [\d.]+ s: storage doesn't answer, check the disk"
    slow_to_notice = True

    def begin(self, injector: Injector) -> None:
        """See `Fault`."""
        super().begin(injector)
        self.released, self.threads = threading.Event(), set[threading.Thread]()

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""
        self.threads.add(threading.current_thread())
        assert self.released.wait(PATIENCE)
        return injector.real(fd, views, offset)


class Damaged(Fault):
    """One bit is wrong in what the read brought."""

    name = "wrong checksum"
    expected = r"expert \d+ of layer \d+ in .*experts\.bin has a wrong checksum: pack the store again"

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""
        got = injector.real(fd, views, offset)
        views[0][got // 2 % len(views[0])] ^= 4
        return got


class Cut(Fault):
    """The file ends in the middle of the read, for real."""

    name = "file cut off"
    expected = r"experts\.bin ended \d+ bytes early in group \d+ of layer \d+: .*pack the store again"

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""

        def cut() -> None:
            self._content = injector.store.experts_path.read_bytes()
            os.truncate(injector.store.experts_path, offset + sum(map(len, views)) // 2)

        self.first(cut)
        return injector.real(fd, views, offset)

    def end(self, injector: Injector) -> None:
        """See `Fault`; the file is made whole in place."""
        injector.store.experts_path.write_bytes(self._content)


class Overwritten(Fault):
    """Another program writes into the file, for real."""

    name = "file overwritten"
    expected = Damaged.expected

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""

        def overwrite() -> None:
            self._content = injector.store.experts_path.read_bytes()
            with open(injector.store.experts_path, "r+b") as file:
                file.seek(offset)
                file.write(b"\x55" * sum(map(len, views)))

        self.first(overwrite)
        return injector.real(fd, views, offset)

    def end(self, injector: Injector) -> None:
        """See `Fault`."""
        injector.store.experts_path.write_bytes(self._content)


class Removed(Fault):
    """The file's name goes, for real; who has it open keeps the content."""

    name = "file removed"

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""
        self.first(lambda: self.take_away(injector.store.experts_path))
        return injector.real(fd, views, offset)

    def take_away(self, path: Path) -> None:
        """Give the file another name."""
        os.rename(path, path.with_name("elsewhere"))

    def end(self, injector: Injector) -> None:
        """See `Fault`."""
        path = injector.store.experts_path
        os.replace(path.with_name("elsewhere"), path)


class Replaced(Removed):
    """Another file takes the name, for real."""

    name = "file replaced"

    def take_away(self, path: Path) -> None:
        """See `Removed`."""
        size = path.stat().st_size
        super().take_away(path)
        path.write_bytes(bytes(size))


class NoDirectReads(Fault):
    """Direct I/O can be opened, but no direct read works."""

    name = "no direct reads"

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""
        if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT:
            self.calls += 1
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return injector.real(fd, views, offset)


class NoDirectOpen(Fault):
    """The file can't be opened for direct I/O."""

    name = "no direct I/O"

    def begin(self, injector: Injector) -> None:
        """See `Fault`."""
        super().begin(injector)
        real = os.open

        def refuse(path: Any, flags: int, *rest: Any, **more: Any) -> int:
            if flags & os.O_DIRECT:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            return real(path, flags, *rest, **more)

        self._patch = patch.object(files_module.os, "open", refuse)
        self._patch.start()

    def end(self, injector: Injector) -> None:
        """See `Fault`."""
        self._patch.stop()


class Death(Fault):
    """The reading thread is ended by an exception that nobody expects."""

    name = "worker dies"
    expected = r"reading group \d+ of layer \d+ from .*experts\.bin failed: the reading thread died .*: run it again"

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""
        raise SystemExit


class Vanished(Fault):
    """The reading thread is gone without a word: none of its cleaning up runs."""

    name = "worker vanishes"
    expected = Hung.expected
    slow_to_notice = True

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""
        ctypes.CDLL(None).pthread_exit(None)
        raise AssertionError("unreachable")


class Signal(Fault):
    """A signal comes while the read is under way."""

    expected = "stopped"

    def __init__(self, name: str, number: signal.Signals) -> None:
        self.name, self.number = name, number

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""
        self.first(lambda: os.kill(os.getpid(), self.number))
        return injector.real(fd, views, offset)


class SignalWhileHung(Hung):
    """A signal comes, and the read never returns."""

    expected = "stopped"
    wait_limit = 20.0  # the signal ends the wait, however late a busy machine delivers it

    def __init__(self, name: str, number: signal.Signals) -> None:
        self.name, self.number = name, number

    def read(self, injector: Injector, fd: int, views: Views, offset: int) -> int:
        """See `Fault`."""
        self.first(lambda: os.kill(os.getpid(), self.number))
        return super().read(injector, fd, views, offset)


FAULTS: list[Callable[[], Fault]] = [
    Fault,
    Short,
    lambda: Errno("EIO", errno.EIO, r"reading group \d+ of layer \d+ from .*: Input/output error: check the disk.*"),
    lambda: Errno("EINTR", errno.EINTR, "result", times=5),
    lambda: Errno("EAGAIN", errno.EAGAIN, "result", times=5),
    lambda: Errno("EAGAIN for ever", errno.EAGAIN, r"reading group \d+ of layer \d+ from .*unavailable, \d+ times: .*"),
    Slow,
    Hung,
    Damaged,
    Cut,
    Overwritten,
    Removed,
    Replaced,
    NoDirectOpen,
    NoDirectReads,
    Death,
    Vanished,
    lambda: Signal("^C", signal.SIGINT),
    lambda: Signal("SIGTERM", signal.SIGTERM),
    lambda: SignalWhileHung("^C, read hung", signal.SIGINT),
    lambda: SignalWhileHung("SIGTERM, read hung", signal.SIGTERM),
]
