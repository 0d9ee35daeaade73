"""The thread pool: shares are run once each, kernels one at a time, and results do not depend on it."""

import ctypes
import os
import signal
import sys
import threading
from queue import SimpleQueue

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.kernels import host
from estream_lab.kernels.host import attention, linear, pack_dense, reference
from estream_lab.kernels.host.threads import run_shares
from estream_lab.workers import WorkerDied, sheltered

threads_module = sys.modules[run_shares.__module__]  # the package has a function of the module's name


@pytest.fixture(autouse=True)
def _same_threads_afterwards():
    before = host.threads()
    yield
    host.set_threads(before)


@pytest.mark.parametrize("tasks", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_every_share_runs_once(tasks: int, workers: int) -> None:
    seen: list[tuple[int, int]] = []
    run_shares(lambda share, shares, worker: seen.append((share, shares)), tasks, workers)
    shares = len(seen)
    assert shares <= tasks
    assert (shares > 0) == (tasks > 0)
    assert sorted(seen) == [(i, shares) for i in range(shares)]


def test_workers_that_run_at_once_have_their_own_number() -> None:
    """Workers own scratch memory by number. Each of the first two shares waits for the other, so both run at once."""
    both = threading.Barrier(2, timeout=60)
    numbers = []

    def kernel(share: int, shares: int, worker: int) -> None:
        if share < 2:
            numbers.append(worker)
            both.wait()

    run_shares(kernel, 8, 2)
    assert sorted(numbers) == [0, 1]


def test_an_error_in_any_share_arrives_and_the_pool_lives_on() -> None:
    def broken(share: int, shares: int, worker: int) -> None:
        raise ZeroDivisionError(share)

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            run_shares(broken, 8, 2)
    test_every_share_runs_once(7, 2)


def test_a_helper_that_dies_in_its_share_is_an_error_and_the_pool_lives_on() -> None:
    here = threading.current_thread()
    for _ in range(3):
        dying = threading.Event()

        def kernel(share: int, shares: int, worker: int, dying: threading.Event = dying) -> None:
            if threading.current_thread() is here:
                assert dying.wait(60)
            else:
                dying.set()
                raise SystemExit

        with pytest.raises(WorkerDied, match=r"kernel thread died \(SystemExit\(\)\): run it again"):
            run_shares(kernel, 8, 2)
    test_every_share_runs_once(7, 2)


def test_a_helper_that_vanishes_or_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads_module, "SHARE_SECONDS", 0.05)
    here, vanishing = threading.current_thread(), threading.Event()

    def kernel(share: int, shares: int, worker: int) -> None:
        if threading.current_thread() is here:
            assert vanishing.wait(60)
        else:
            vanishing.set()
            ctypes.CDLL(None).pthread_exit(None)

    with pytest.raises(EStreamError, match="gave up waiting for a kernel thread after 0.05 s"):
        run_shares(kernel, 8, 2)
    monkeypatch.undo()
    both = threading.Barrier(2, timeout=60)  # the next kernel has a helper again
    run_shares(lambda share, shares, worker: both.wait() * 0 if share < 2 else 0, 8, 2)  # type: ignore[arg-type]


def test_an_interrupt_waits_for_helpers_and_drops_the_other_shares() -> None:
    """No helper may write into the caller's arrays once the caller has them back."""
    here, helping, go = threading.current_thread(), threading.Event(), threading.Event()
    events: list[str] = []

    def kernel(share: int, shares: int, worker: int) -> None:
        if threading.current_thread() is here:
            assert helping.wait(60)
            threading.Timer(0.02, go.set).start()  # long after the interrupt
            signal.raise_signal(signal.SIGINT)
        helping.set()
        assert go.wait(60)
        events.append("helper ended")

    with pytest.raises(KeyboardInterrupt):
        run_shares(kernel, 100, 2)
    assert events == ["helper ended"]


def test_an_interrupt_while_waiting_for_helpers_does_not_let_go_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    here, helping, go = threading.current_thread(), threading.Event(), threading.Event()
    events: list[str] = []
    waits: list[float] = []

    class Interrupted(SimpleQueue):  # type: ignore[type-arg]
        def get(self, block: bool = True, timeout: float | None = None) -> object:
            waits.append(timeout or 0)
            if len(waits) < 3:
                raise KeyboardInterrupt
            go.set()
            return super().get(block, timeout)

    def kernel(share: int, shares: int, worker: int) -> None:
        if threading.current_thread() is here:
            assert helping.wait(60)
        else:
            helping.set()
            assert go.wait(60)
            events.append("helper ended")

    monkeypatch.setattr(threads_module, "SimpleQueue", Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_shares(kernel, 2, 2)
    assert events == ["helper ended"]


def test_a_stopped_request_starts_no_further_kernel() -> None:
    ran: list[int] = []

    def request() -> None:
        for step in range(1 << 30):
            run_shares(lambda share, shares, worker: ran.append(1), 1, 1)
            if step == 3:
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        sheltered(request)
    assert len(ran) >= 4


def test_each_python_thread_has_its_own_number_of_threads() -> None:
    """Two engines at once: neither uses, nor reports, the other's."""
    host.set_threads(1)
    seen: list[int] = []

    def other() -> None:
        seen.append(host.threads())
        host.set_threads(host.thread_limit())
        seen.append(host.threads())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert seen == [host.thread_limit()] * 2 and host.threads() == 1


def test_results_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((500, 96)).astype(np.float32), pack_dense(rng.standard_normal((130, 96)))
    q = rng.standard_normal((130, 3, 32)).astype(np.float32)
    cache = reference.strips(*rng.standard_normal((2, 130, 3, 32)).astype(np.float32))
    results = set()
    for n in range(1, host.thread_limit() + 1):
        host.set_threads(n)
        assert host.threads() == n
        results.add(linear(x, w).tobytes() + attention(q, *cache, 0, 0.2).tobytes())
    assert len(results) == 1


def test_engines_in_two_python_threads_get_their_own_results() -> None:
    rng = np.random.default_rng(1)
    w = pack_dense(rng.standard_normal((96, 64)))
    inputs = [rng.standard_normal((300, 64)).astype(np.float32) for _ in range(4)]
    expected = [linear(x, w).tobytes() for x in inputs]
    right: list[bool] = []

    def engine(i: int) -> None:
        right.append(all(linear(inputs[i], w).tobytes() == expected[i] for _ in range(20)))

    callers = [threading.Thread(target=engine, args=(i,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert right == [True] * 4


def test_thread_numbers_are_checked() -> None:
    for n in (0, -1, host.thread_limit() + 1):
        with pytest.raises(EStreamError, match=f"{n} threads were asked for"):
            host.set_threads(n)
    assert 1 <= host.threads() <= host.thread_limit() <= (os.cpu_count() or 1)
