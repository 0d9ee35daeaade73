"""Waiting with a deadline, and with an ear for a stop."""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Generic, Self, TypeVar

from estream_lab.errors import EStreamError
from estream_lab.workers.pool import Workers
from estream_lab.workers.shelter import LISTEN_SECONDS, SETTLE_SECONDS, check_stopped

T = TypeVar("T")


class Attendant(Generic[T]):
    """A thread of its own for questions that may find no answer; a context manager.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._workers: Workers[T] = Workers(1, name)
        self._afterwards: Callable[[], object] = lambda: None

    def ask(self, call: Callable[[], T], what: str, seconds: float) -> T:
        """What ``call`` gives; see `wait_for`."""
        return wait_for(self._workers.submit(call), what, seconds)

    def at_rest(self, call: Callable[[], object]) -> None:
        """Call this at the end, unless a question is still without an answer then: what it uses is left to it."""
        self._afterwards = call

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._workers.stop()
        if self._workers.join(SETTLE_SECONDS):
            self._afterwards()


def answered(call: Callable[[], T], what: str, seconds: float) -> T:
    """What ``call`` gives on a thread of its own; see `wait_for`."""
    with Attendant[T]("estream-answer") as attendant:
        return attendant.ask(call, what, seconds)


def wait_for(future: "Future[T]", what: str, seconds: float) -> T:
    """The future's result.

    Raises:
        EStreamError: none within ``seconds``, it was cancelled, or the sheltered call that waits here is stopped. The
            future's own exception is raised here too.
    """
    deadline = time.monotonic() + seconds
    while True:
        check_stopped()
        left = deadline - time.monotonic()
        try:
            return future.result(max(0.0, min(left, LISTEN_SECONDS)))
        except TimeoutError:
            if future.done():  # the call's own, or the answer has come just now
                return future.result()
        except CancelledError:
            raise EStreamError(f"{what} was given up") from None
        if left <= 0:
            raise EStreamError(
                f"gave up waiting for {what} after {seconds:g} s: storage doesn't answer, check the disk"
            )
