"""Threads of the host kernels: one pool, and one kernel at a time.

Kernels release the interpreter lock, so plain Python threads run them side by side. Numba's own `parallel=True` would
do the same at several times the compile time, and its portable layer aborts the process when two Python threads use it.

A kernel's work is cut into a few shares for each thread, handed out as threads become free: a thread that another
process holds up then delays one share only. Every result is computed whole within a share by a fixed sequence of
operations, so neither the number of threads nor the hand-out changes it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait

from estream_lab.errors import EStreamError

SHARES_A_THREAD = 4

_owner = threading.Lock()
_limit = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
_threads = _limit
_pool: ThreadPoolExecutor | None = None


def set_threads(n: int) -> None:
    """Let later kernels, of whichever Python thread, use `n` threads. Results do not depend on it.

    Raises:
        EStreamError: n is below 1 or above the number of processors that this process may use.
    """
    global _threads
    if not 1 <= n <= _limit:
        raise EStreamError(
            f"{n} threads were asked for, but this process may use 1 to {_limit} processors: choose among these."
        )
    _threads = n


def threads() -> int:
    """Threads that kernels use: all processors of this process unless `set_threads` says otherwise."""
    return _threads


def thread_limit() -> int:
    """The most threads that `set_threads` takes: processors of this process."""
    return _limit


def run_shares(kernel: Callable[[int, int, int], None], tasks: int, workers: int) -> None:
    """Run all shares of a kernel and wait for them.

    Args:
        kernel: called as ``kernel(share, shares, worker)``, 0 <= share < shares, 0 <= worker < workers; calls with one
            `worker` never overlap.
        tasks: the most shares that make sense.
        workers: threads to use, the calling one among them.
    """
    workers = max(1, min(workers, tasks))
    shares = min(tasks, SHARES_A_THREAD * workers if workers > 1 else 1)
    with _owner:
        queue = iter(range(shares))
        helpers = [_executor().submit(_work, kernel, queue, shares, worker) for worker in range(1, workers)]
        try:
            _work(kernel, queue, shares, 0)
        finally:
            # Whatever happens, no helper may go on writing into the caller's arrays.
            wait(helpers)
        for helper in helpers:
            helper.result()


def _work(kernel: Callable[[int, int, int], None], queue: Iterator[int], shares: int, worker: int) -> None:
    for share in queue:
        kernel(share, shares, worker)


def _executor() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(max(1, _limit - 1), thread_name_prefix="estream-kernel")
    return _pool


def _forget_pool() -> None:
    """A forked child has the pool's records but none of its threads, and maybe a lock that nobody will release."""
    global _pool, _owner
    _pool, _owner = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
