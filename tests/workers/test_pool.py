"""Worker threads: calls in order, each waited-for future answered, and an end that nothing holds up."""

import ctypes
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future

import pytest

from estream_lab.errors import EStreamError
from estream_lab.workers import WorkerDied, Workers

LONG = 60.0


@pytest.fixture
def workers():
    pool: Workers[int] = Workers(2, "test-worker")
    yield pool
    pool.stop()
    assert pool.join(LONG)


def names() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("test-worker")}


def test_calls_give_their_results_and_their_exceptions(workers: Workers[int]) -> None:
    futures = [workers.submit(lambda i=i: 10 // i) for i in (5, 2, 0, 1)]  # type: ignore[misc]
    assert [future.result(LONG) for future in futures[:2]] == [2, 5]
    with pytest.raises(ZeroDivisionError):
        futures[2].result(LONG)
    assert futures[3].result(LONG) == 10
    assert 1 <= len(names()) <= 2


def test_as_many_calls_run_at_once_as_there_are_threads(workers: Workers[int]) -> None:
    together = threading.Barrier(2, timeout=LONG)
    assert [f.result(LONG) for f in [workers.submit(lambda: together.wait() * 0) for _ in range(2)]] == [0, 0]


def test_one_thread_takes_calls_in_order() -> None:
    pool: Workers[None] = Workers(1, "test-worker")
    seen: list[int] = []
    futures = [pool.submit(lambda i=i: seen.append(i)) for i in range(50)]  # type: ignore[misc]
    futures[-1].result(LONG)
    pool.stop()
    assert seen == list(range(50)) and pool.join(LONG)


def test_stopping_cancels_what_has_not_begun_and_the_threads_end() -> None:
    pool: Workers[bool] = Workers(1, "test-worker")
    begun, go = threading.Event(), threading.Event()
    first = pool.submit(lambda: begun.set() or go.wait(LONG))
    second = pool.submit(lambda: True)
    assert begun.wait(LONG)
    pool.stop()
    assert second.cancelled() and not pool.join(0.0)  # the first goes on
    go.set()
    assert pool.join(LONG) and first.result(0) and not names()
    with pytest.raises(RuntimeError, match="stopped"):
        pool.submit(lambda: True)


def test_a_call_that_is_withdrawn_never_runs_unless_it_has_begun() -> None:
    pool: Workers[bool] = Workers(1, "test-worker")
    begun, go = threading.Event(), threading.Event()
    first = pool.submit(lambda: begun.set() or go.wait(LONG))
    second, third = (pool.submit(lambda: True) for _ in range(2))
    assert begun.wait(LONG)
    pool.withdraw([first, second])
    assert second.cancelled() and not first.cancelled()
    go.set()
    assert first.result(LONG) and third.result(LONG)
    pool.stop()
    assert pool.join(LONG)


def test_a_result_is_told_of_before_the_call_counts_as_ended() -> None:
    """What hears of a read's end touches the arena: `join` must wait for that, too."""
    pool: Workers[bool] = Workers(1, "test-worker")
    begin, hears, go = threading.Event(), threading.Event(), threading.Event()
    future = pool.submit(lambda: begin.wait(LONG))
    future.add_done_callback(lambda _: (hears.set(), go.wait(LONG)))
    begin.set()
    assert hears.wait(LONG) and future.done()
    pool.stop()
    assert not pool.join(0.0)
    go.set()
    assert pool.join(LONG)


def test_a_thread_that_dies_leaves_nobody_waiting() -> None:
    pool: Workers[int] = Workers(1, "test-worker")
    dies, waits = pool.submit(sys.exit), pool.submit(lambda: 1)
    for future in (dies, waits):
        with pytest.raises(WorkerDied, match=r"test-worker thread died \(SystemExit\(\)\): run it again"):
            future.result(LONG)
    assert pool.stopped and pool.join(LONG)
    with pytest.raises(WorkerDied):
        pool.submit(lambda: 1).result(LONG)


def test_a_callback_that_ends_the_thread_leaves_nobody_waiting() -> None:
    pool: Workers[int] = Workers(1, "test-worker")
    go = threading.Event()

    def end(_: "Future[int]") -> None:
        raise SystemExit

    first = pool.submit(lambda: go.wait(LONG) and 7)
    first.add_done_callback(end)
    second = pool.submit(lambda: 1)
    go.set()
    assert first.result(LONG) == 7
    with pytest.raises(WorkerDied):
        second.result(LONG)
    assert pool.join(LONG)


def test_a_thread_that_vanishes_does_not_hold_up_the_end() -> None:
    pool: Workers[int] = Workers(1, "test-worker")
    future = pool.submit(lambda: ctypes.CDLL(None).pthread_exit(None))
    with pytest.raises(TimeoutError):
        future.result(0.05)
    pool.stop()
    assert not pool.join(0.05)


def test_a_system_without_threads_to_give_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    pool: Workers[int] = Workers(2, "test-worker")
    with pytest.raises(EStreamError, match="no more threads"):
        pool.submit(lambda: 1)
    assert pool.join(0.0)


def test_a_second_thread_that_the_system_refuses_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    pool: Workers[int] = Workers(2, "test-worker")
    assert pool.submit(lambda: 1).result(LONG) == 1
    go = threading.Event()
    busy = pool.submit(lambda: go.wait(LONG) and 2)

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    other = pool.submit(lambda: 3)
    go.set()
    assert (busy.result(LONG), other.result(LONG)) == (2, 3)
    pool.stop()
    assert pool.join(LONG)


def test_a_call_that_never_returns_does_not_keep_the_process() -> None:
    code = (
        "import threading\n"
        "from estream_lab.workers import Workers\n"
        "begun = threading.Event()\n"
        "pool = Workers(1, 'never')\n"
        "pool.submit(lambda: begun.set() or threading.Event().wait())\n"
        "begun.wait()\n"
        "pool.stop()\n"
        "print(pool.join(0.01))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_cancelled_futures_say_so(workers: Workers[int]) -> None:
    go = threading.Event()
    for _ in range(2):
        workers.submit(lambda: go.wait(LONG))
    late = workers.submit(lambda: 1)
    assert late.cancel()
    go.set()
    with pytest.raises(CancelledError):
        late.result(LONG)
    assert workers.submit(lambda: 4).result(LONG) == 4
