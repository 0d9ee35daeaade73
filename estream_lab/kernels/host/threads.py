"""One owner of parallel kernels.

Numba's workqueue layer aborts the process if two Python threads run parallel kernels at once, and its thread count
belongs to the calling Python thread. So every parallel kernel of this package runs inside `parallel()`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numba
from numba import config

from estream_lab.errors import EStreamError

# The other layers need libraries that may be absent; this one is part of numba. It must be named before the first kernel.
config.THREADING_LAYER = "workqueue"

_owner = threading.Lock()
_limit = config.NUMBA_NUM_THREADS  # threads that numba ever starts
_threads = min(_limit, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def set_threads(n: int) -> None:
    """Let later kernels, of whichever Python thread, use `n` threads. Results do not depend on it.

    Raises:
        EStreamError: n is below 1 or above the number of threads numba was started with.
    """
    global _threads
    if not 1 <= n <= _limit:
        raise EStreamError(
            f"{n} threads were asked for, but this process can use 1 to {_limit}: choose fewer, or set NUMBA_NUM_THREADS."
        )
    _threads = n


def threads() -> int:
    """Threads that kernels use."""
    return _threads


@contextmanager
def parallel() -> Iterator[int]:
    """Own the thread pool: yields the number of threads and waits while another Python thread runs a kernel."""
    with _owner:
        before = numba.get_num_threads()
        numba.set_num_threads(_threads)
        try:
            yield _threads
        finally:
            numba.set_num_threads(before)
