"""The thread pool: shares are run once each, kernels one at a time, and results do not depend on it."""

import os
import threading

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.kernels import host
from estream_lab.kernels.host import attention, linear, pack_dense
from estream_lab.kernels.host.threads import run_shares


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


def test_results_do_not_depend_on_threads() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((500, 96)).astype(np.float32), pack_dense(rng.standard_normal((130, 96)))
    q = rng.standard_normal((130, 3, 32)).astype(np.float32)
    k, v = rng.standard_normal((2, 3, 32, 130)).astype(np.float32)
    v = v.swapaxes(1, 2).copy()
    results = set()
    for n in range(1, host.thread_limit() + 1):
        host.set_threads(n)
        assert host.threads() == n
        results.add(linear(x, w).tobytes() + attention(q, k, v, 0, 0.2).tobytes())
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
