"""Calls on a thread of their own, where no signal's exception reaches them.

Python raises ^C in the main thread, between any two of its steps: also between taking a lock and the statement that
would give it back. Work that shares locks and memory with other threads therefore runs on a thread of its own, and what
a signal interrupts is the main thread's wait for it. Whoever waits tells the work to stop, and the work looks for that
where it can stop in order.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from estream_lab.errors import EStreamError

T = TypeVar("T")

LISTEN_SECONDS = 0.1  # a wait of sheltered work looks this often whether it is to stop
SETTLE_SECONDS = 0.5  # for a call that is under way when work stops; a person waits for it

_here = threading.local()


class Stopped(EStreamError):
    """The work was told to stop."""


def check_stopped() -> None:
    """Raise `Stopped` in a sheltered call that was told to stop; elsewhere nothing.

    Raises:
        Stopped: see above.
    """
    told: threading.Event | None = getattr(_here, "told", None)
    if told is not None and told.is_set():
        raise Stopped("stopped on request: run it again")


def sheltered(call: Callable[[], T]) -> T:
    """What ``call`` gives, run on a thread of its own.

    An exception that comes to the caller while it waits, such as ^C's, is raised here once the call has ended, or after
    a moment: it is told to stop, and where it can't do so soon, it is left to end by itself.

    Raises:
        EStreamError: the system gives no more threads. What ``call`` raises is raised here too.
    """
    told = threading.Event()
    answer: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        _here.told = told
        try:
            answer.put((call(), None))
        except BaseException as error:
            answer.put((None, error))

    thread = threading.Thread(target=run, name="estream-request", daemon=True)
    try:
        try:
            thread.start()
        except RuntimeError as none:
            raise EStreamError(f"the system gives no more threads ({none}): end other programs") from none
        value, error = _wait(answer, thread)
    except BaseException:
        told.set()
        with suppress(RuntimeError):  # not started yet: it won't be
            thread.join(3 * SETTLE_SECONDS)  # its reads and its file each take one at most
        raise
    if error is not None:
        raise error
    return value  # type: ignore[return-value]  # T may well include None


def _wait(
    answer: "SimpleQueue[tuple[T | None, BaseException | None]]", thread: threading.Thread
) -> tuple[T | None, BaseException | None]:
    """The answer, however long it takes: the call's own waits have their deadlines.

    A signal that the system gives to another thread doesn't wake this one, so it looks up now and then.
    """
    while True:
        try:
            return answer.get(timeout=LISTEN_SECONDS)
        except Empty:
            if not thread.is_alive() and answer.empty():
                raise EStreamError("the request's thread died: run it again") from None
