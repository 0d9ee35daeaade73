"""Daemon threads that run calls: one that never returns holds up neither a wait nor the end of the process.

`concurrent.futures` joins its threads when the interpreter exits: a single read from storage that doesn't answer would
keep the process for ever.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar

from estream_lab.errors import EStreamError

T = TypeVar("T")


class WorkerDied(EStreamError):
    """A thread ended in the middle of its work."""


class Workers(Generic[T]):
    """Up to ``most`` daemon threads that run calls in the order of their submission; threads start when needed.

    Only the threads themselves wait on a condition. What the caller's thread does here are single steps under a plain
    lock, so that a signal's exception in it leaves no lock behind that nobody will release.

    Args:
        most: threads at most.
        name: of the threads, for debuggers and error messages.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._lock = threading.Lock()
        self._pending: deque[tuple[Future[T], Callable[[], T]]] = deque()
        self._tokens: SimpleQueue[None] = SimpleQueue()  # one a pending call, and one a thread to stop
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._running = 0
        self._stopped = False
        self._death: WorkerDied | None = None

    @property
    def stopped(self) -> bool:
        """Stopped by `stop`, or by a thread's death."""
        return self._stopped

    def submit(self, call: Callable[[], T]) -> "Future[T]":
        """Run ``call`` on a thread; the future holds its result or its exception, `WorkerDied` if the thread dies.

        Raises:
            EStreamError: the system gives no more threads.
            RuntimeError: stopped already.
        """
        future: Future[T] = Future()
        with self._lock:
            if self._death is not None:
                future.set_exception(self._death)
                return future
            if self._stopped:
                raise RuntimeError(f"the {self._name} threads are stopped")
            self._pending.append((future, call))
            wanted = len(self._pending) > self._idle and len(self._threads) < self._most
        self._tokens.put(None)
        if wanted:  # after the token: a new thread begins with the call at once
            self._start_one()
        return future

    def withdraw(self, given: "Collection[Future[T]]") -> None:
        """Cancel those of these calls that have not begun, and keep nothing of them."""
        with self._lock:
            withdrawn = [entry for entry in self._pending if entry[0] in given]
            for entry in withdrawn:
                self._pending.remove(entry)
        for future, _ in withdrawn:
            future.cancel()

    def stop(self) -> None:
        """Cancel what has not begun and let each thread end after its present call; doesn't wait, may be repeated."""
        with self._lock:
            self._stopped = True
            waiting = list(self._pending)
            self._pending.clear()
        for _ in self._threads:
            self._tokens.put(None)
        for future, _ in waiting:
            future.cancel()

    def join(self, seconds: float) -> bool:
        """After `stop`: wait until no call is under way and the threads are gone; False if one goes on for longer."""
        deadline = time.monotonic() + seconds
        for thread in list(self._threads):
            with suppress(RuntimeError):  # a signal came before it was started: it never will be
                thread.join(max(0.0, deadline - time.monotonic()))
        return not self._running

    def _start_one(self) -> None:
        thread = threading.Thread(target=self._serve, name=f"{self._name}_{len(self._threads)}", daemon=True)
        with self._lock:
            self._threads.append(thread)
        try:
            thread.start()
        except RuntimeError as error:
            with self._lock:
                self._threads.remove(thread)
            if not self._threads:
                self.stop()
                raise EStreamError(f"the system gives no more threads ({error}): end other programs") from error

    def _serve(self) -> None:
        """A thread's life. However it ends, nobody is left to wait for what it had begun or what no other will do."""
        begun: Future[T] | None = None
        try:
            while (taken := self._take()) is not None:
                begun, call = taken
                if begun.set_running_or_notify_cancel():
                    _complete(begun, call)
                begun = None
                del taken, call  # what they hold, such as views of an arena, goes with them
                self._ended()
        except BaseException as error:
            self._died(begun, error)
            if begun is not None:
                self._ended()

    def _take(self) -> tuple["Future[T]", Callable[[], T]] | None:
        """The next call, counted as running; None to stop."""
        while True:
            with self._lock:
                if self._stopped:
                    return None
                self._idle += 1
            self._tokens.get()
            with self._lock:
                self._idle -= 1
                if self._pending and not self._stopped:
                    self._running += 1
                    return self._pending.popleft()

    def _ended(self) -> None:
        with self._lock:
            self._running -= 1

    def _died(self, begun: "Future[T] | None", error: BaseException) -> None:
        died = WorkerDied(f"an {self._name} thread died ({error!r}): run it again")
        with self._lock:
            self._stopped, self._death = True, died
            lost = [future for future, _ in self._pending]
            self._pending.clear()
        for future in [begun, *lost]:
            if future is not None and not future.done():
                future.set_exception(died)
        for _ in self._threads:
            self._tokens.put(None)


def _complete(future: "Future[T]", call: Callable[[], T]) -> None:
    try:
        value = call()
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(value)
