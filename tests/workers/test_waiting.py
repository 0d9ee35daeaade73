"""Waits: each has a deadline and says what it waited for."""

import threading
from concurrent.futures import Future

import pytest

from estream_lab.errors import EStreamError
from estream_lab.workers import Attendant, answered, wait_for

LONG = 60.0


def test_an_answer_is_given_and_its_exception_is_raised() -> None:
    assert answered(lambda: 5, "the answer", LONG) == 5
    with pytest.raises(ZeroDivisionError):
        answered(lambda: 1 // 0, "the answer", LONG)


def test_no_answer_is_given_up_with_what_was_waited_for() -> None:
    go = threading.Event()
    with pytest.raises(EStreamError, match=r"gave up waiting for the file after 0.01 s: .* check the disk"):
        answered(lambda: go.wait(LONG), "the file", 0.01)
    go.set()


def test_the_calls_own_timeout_is_not_taken_for_the_waits() -> None:
    def late() -> None:
        raise TimeoutError("of the call")

    with pytest.raises(TimeoutError, match="of the call"):
        answered(late, "the answer", LONG)


def test_what_was_cancelled_was_given_up() -> None:
    future: Future[int] = Future()
    future.cancel()
    with pytest.raises(EStreamError, match="group 3 was given up"):
        wait_for(future, "group 3", LONG)


def test_what_an_unanswered_question_uses_is_left_to_it() -> None:
    go, closed = threading.Event(), []
    with Attendant[bool]("test") as attendant:
        attendant.at_rest(lambda: closed.append(1))
        assert attendant.ask(lambda: True, "the first", LONG)
    assert closed == [1]
    with pytest.raises(EStreamError), Attendant[bool]("test") as attendant:
        attendant.at_rest(lambda: closed.append(2))
        attendant.ask(lambda: go.wait(LONG), "the second", 0.01)
    go.set()
    assert closed == [1]
