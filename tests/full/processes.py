"""Processes of tests: each ends by a deadline, with all that it has started, so no read of its pipes lasts for ever."""

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

DEADLINE = 120.0  # seconds that nothing here takes unless it hangs


@contextmanager
def started(
    command: Sequence[str], *, seconds: float | None = DEADLINE, **more: Any
) -> Iterator["subprocess.Popen[str]"]:
    """A process in a group of its own, under a deadline; what is left of it goes at the end.

    Args:
        command: what is run.
        seconds: the deadline; None where each step has its own.
        more: as `subprocess.Popen` takes it.
    """
    options = {"stdout": subprocess.PIPE, "text": True} | more
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        try:
            with deadline(process, seconds) if seconds else nullcontext():
                yield process
        finally:
            if process.poll() is None:
                _kill(process)


@contextmanager
def deadline(process: "subprocess.Popen[str]", seconds: float = DEADLINE) -> Iterator[None]:
    """Kill a process of `started` where what is done meanwhile lasts longer: its pipes end, its status is -9."""
    timer = threading.Timer(seconds, _kill, (process,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _kill(process: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):  # it has just ended
        os.killpg(process.pid, signal.SIGKILL)
