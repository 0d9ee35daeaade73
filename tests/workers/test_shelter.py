"""Sheltered calls: no signal reaches them, and who is interrupted while waiting tells them to stop."""

import signal
import threading
from queue import SimpleQueue

import pytest

from estream_lab.errors import EStreamError
from estream_lab.workers import Stopped, check_stopped, shelter, sheltered, wait_for
from estream_lab.workers.pool import Workers

LONG = 60.0


def test_results_and_exceptions_come_through() -> None:
    assert sheltered(lambda: 3) == 3
    assert sheltered(lambda: None) is None
    with pytest.raises(ZeroDivisionError):
        sheltered(lambda: 1 // 0)
    with pytest.raises(KeyboardInterrupt):  # one of the call's own
        sheltered(lambda: signal.default_int_handler(signal.SIGINT, None))


def test_a_signal_stops_the_call_where_it_can_stop() -> None:
    steps: list[str] = []

    def call() -> None:
        signal.raise_signal(signal.SIGINT)  # handled by the main thread
        try:
            while True:
                check_stopped()
        except Stopped:
            steps.append("stopped")
            raise

    with pytest.raises(KeyboardInterrupt):
        sheltered(call)
    assert steps == ["stopped"]


def test_a_signal_ends_a_wait_of_the_call() -> None:
    found: list[BaseException] = []

    def call() -> None:
        workers, go = Workers[bool](1, "test"), threading.Event()
        future = workers.submit(lambda: go.wait(LONG))
        signal.raise_signal(signal.SIGINT)
        try:
            wait_for(future, "the disk", LONG)
        except Stopped as stopped:
            found.append(stopped)
        finally:
            go.set()

    with pytest.raises(KeyboardInterrupt):
        sheltered(call)
    assert len(found) == 1


def test_the_waiting_thread_looks_up_as_often_as_the_work_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may give a signal to any thread; Python's handler runs once the main thread looks up."""
    looked, waiting = list[object](), threading.Event()

    class Watched(SimpleQueue):  # type: ignore[type-arg]
        def get(self, block: bool = True, timeout: float | None = None) -> object:
            looked.append(timeout)
            waiting.set()
            return super().get(block, timeout)

    def call() -> None:
        assert waiting.wait(LONG)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        while True:
            check_stopped()

    monkeypatch.setattr(shelter, "SimpleQueue", Watched)
    with pytest.raises(KeyboardInterrupt):
        sheltered(call)
    assert set(looked) == {shelter.LISTEN_SECONDS}


def test_a_call_that_does_not_stop_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelter, "SETTLE_SECONDS", 0.01)
    go, ended = threading.Event(), threading.Event()

    def call() -> None:
        signal.raise_signal(signal.SIGINT)
        go.wait(LONG)
        ended.set()

    with pytest.raises(KeyboardInterrupt):
        sheltered(call)
    assert not ended.is_set()
    go.set()
    assert ended.wait(LONG)


def test_an_answer_that_came_with_the_signal_is_not_waited_for_again() -> None:
    """The signal may come just when the answer was taken; the call is over then."""
    real = SimpleQueue.get

    class Late(SimpleQueue):  # type: ignore[type-arg]
        def get(self, *arguments: object, **more: object) -> object:
            real(self, *arguments, **more)  # type: ignore[arg-type]
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shelter, "SimpleQueue", Late)
        patch.setattr(shelter, "SETTLE_SECONDS", LONG)  # a wait for an answer would last minutes
        sheltered(lambda: 1)


def test_outside_of_a_shelter_nothing_is_stopped() -> None:
    check_stopped()
    seen: list[bool] = []

    def call() -> None:
        thread = threading.Thread(target=lambda: (check_stopped(), seen.append(True)))
        signal.raise_signal(signal.SIGINT)
        thread.start()
        thread.join()

    with pytest.raises(KeyboardInterrupt):
        sheltered(call)
    assert seen == [True]


def test_a_system_without_threads_to_give_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(EStreamError, match="no more threads"):
        sheltered(lambda: 1)


def test_a_request_whose_thread_is_gone_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(threading.Thread):
        def run(self) -> None:
            pass

    monkeypatch.setattr(shelter.threading, "Thread", Gone)
    with pytest.raises(EStreamError, match="thread died"):
        sheltered(lambda: 1)
