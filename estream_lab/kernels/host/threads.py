"""Threads of the host kernels: one pool, and one kernel at a time.

Kernels release the interpreter lock, so plain Python threads run them side by side. Numba's own `parallel=True` would
do the same at several times the compile time, and its portable layer aborts the process when two Python threads use it.

A kernel's work is cut into a few shares for each thread. Compiled code takes them itself, from a counter in memory
(`vector_ir.take_share`): a thread needs the interpreter once a kernel and not once a share, and one that another
process holds up delays one share only. Every result is computed whole within a share by a fixed sequence of
operations, so neither the number of threads nor the hand-out changes it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue

import numpy as np

from estream_lab.errors import EStreamError
from estream_lab.kernels.compiled import compiled
from estream_lab.kernels.host.vector_ir import take_share
from estream_lab.workers import WorkerDied, Workers, check_stopped

SHARES_A_THREAD = 4
SHARE_SECONDS = 600.0  # for one share; the largest take seconds, on a slow machine

Work = Callable[[int, int, int], None]

_owner = threading.Lock()  # held for as long as a kernel runs, which has a limit
_limit = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_chosen = threading.local()
_pool: Workers[None] | None = None


def set_threads(n: int) -> None:
    """Let later kernels that this Python thread calls use `n` threads. Results do not depend on it.

    Raises:
        EStreamError: n is below 1 or above the number of processors that this process may use.
    """
    if not 1 <= n <= _limit:
        raise EStreamError(
            f"{n} threads were asked for, but this process may use 1 to {_limit} processors: choose among these."
        )
    _chosen.threads = n


def threads() -> int:
    """Threads that kernels called from here use: all processors unless `set_threads` was called on this thread."""
    chosen: int = getattr(_chosen, "threads", _limit)
    return chosen


def thread_limit() -> int:
    """The most threads that `set_threads` takes: processors of this process."""
    return _limit


def run_workers(work: Work, tasks: int, workers: int, shares: int | None = None) -> None:
    """Run a kernel on several threads and wait for all of it.

    Args:
        work: called once a thread as ``work(counter, shares, worker)``, 0 <= worker < workers: it takes shares with
            `take_share(counter)` until one isn't below `shares`. Calls with one `worker` never overlap.
        tasks: the most shares that make sense.
        workers: threads to use, the calling one among them.
        shares: that the kernel is cut into; by default a few for each thread.

    A call that is told to stop ends with the kernel: compiled code hears of nothing until then.

    Raises:
        EStreamError: a thread died in its share, or doesn't end it, or the sheltered call that runs the kernel is told
            to stop. What a kernel raises is raised here too.
    """
    check_stopped()
    workers = max(1, min(workers, tasks))
    few = min(tasks, SHARES_A_THREAD * workers if workers > 1 else 1)
    job = _Job(work, few if shares is None else shares)
    with _owner:
        helpers, helps = _helpers(), []
        try:
            for worker in range(1, workers):
                helps.append(helpers.submit(partial(job.help, worker)))
            job.work()
        finally:
            try:
                job.end()
            finally:
                job.end()  # for an interrupt may have come just before the first
        helpers.withdraw(helps)  # small kernels are done before a helper wakes: on a busy computer they would pile up
        if not job.ended:
            _forget_helpers()
    job.check()


def run_shares(kernel: Work, tasks: int, workers: int) -> None:
    """`run_workers` for a kernel in Python, called as ``kernel(share, shares, worker)``, 0 <= share < shares."""

    def work(counter: int, shares: int, worker: int) -> None:
        while (share := _next_share(counter)) < shares:
            kernel(share, shares, worker)

    run_workers(work, tasks, workers)


@compiled
def _next_share(counter: int) -> int:
    return take_share(counter)


class _Job:
    """One kernel's run. No helper's future is waited for: an interrupt may have lost it."""

    def __init__(self, work: Work, shares: int) -> None:
        self._work, self._shares = work, shares
        self._taken = np.zeros(1, np.int64)  # shares taken, and attempts to take more
        self._counter: int = self._taken.ctypes.data
        self._lock = threading.Lock()
        self._closed = False
        self._helping = 0  # helpers in their part
        self._error: BaseException | None = None
        self._wake: SimpleQueue[None] = SimpleQueue()  # one each time a helper ends its part
        self._deadline = 0.0

    def work(self) -> None:
        """The calling thread's part, as worker 0."""
        self._work(self._counter, self._shares, 0)

    def help(self, worker: int) -> None:
        """A helper's part. It may come late, when all is done and the caller gone, and then does nothing."""
        with self._lock:
            if self._closed:
                return
            self._helping += 1
        error: BaseException | None = None
        try:
            self._work(self._counter, self._shares, worker)
        except Exception as raised:
            error = raised
        except BaseException as end:
            error = WorkerDied(f"a kernel thread died ({end!r}): run it again")
        if error is not None:
            self._taken[0] = self._shares
        with self._lock:
            self._helping -= 1
            self._error = self._error or error
        self._wake.put(None)

    def end(self) -> None:
        """Hand out no more, and let no helper go on writing into the caller's arrays, whatever happens here."""
        interrupt: BaseException | None = None
        with self._lock:
            self._closed = True
        self._taken[0] = self._shares
        self._deadline = self._deadline or time.monotonic() + SHARE_SECONDS
        while self._helping and time.monotonic() < self._deadline:
            try:
                self._wake.get(timeout=0.1)
            except Empty:
                pass
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    @property
    def ended(self) -> bool:
        """No helper is at a share."""
        return not self._helping

    def check(self) -> None:
        """Raise what went wrong on a helper's thread."""
        if self._error is not None:
            raise self._error
        if not self.ended:
            raise EStreamError(
                f"gave up waiting for a kernel thread after {SHARE_SECONDS:g} s: it died or is held up, run it again"
            )


def _helpers() -> Workers[None]:
    global _pool
    if _pool is None or _pool.stopped:
        _pool = Workers(max(1, _limit - 1), "estream-kernel")
    return _pool


def _forget_helpers() -> None:
    global _pool
    if _pool is not None:
        _pool.stop()
    _pool = None


def _forget_pool() -> None:
    """A forked child has the pool's records but none of its threads, and maybe a lock that nobody will release."""
    global _pool, _owner
    _pool, _owner = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
