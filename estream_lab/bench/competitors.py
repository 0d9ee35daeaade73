"""Busy processes beside a bench: what a row's threads do while another program takes one of their processors."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Stopped most of the time, so that it must not wait for a sign of its parent's end: Linux kills it.
_PROGRAM = """
import ctypes, os, signal, sys
parent = os.getppid()
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
os.close(1)
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


class Competitors:
    """Processes that compute all the time, as nice as this one; stopped but within `running`.

    Args:
        count: how many.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Competitors":
        command = [sys.executable, "-I", "-c", _PROGRAM]
        try:
            for _ in range(self._count):
                self._processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True))
            for process in self._processes:
                assert process.stdout is not None
                with process.stdout as output:
                    output.read()  # ends when its start is over
            self._all(signal.SIGSTOP)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._all(signal.SIGKILL)
        for process in self._processes:
            process.wait()

    @property
    def processes(self) -> list[int]:
        """Their ids."""
        return [process.pid for process in self._processes]

    @contextmanager
    def running(self) -> Iterator[None]:
        """They compute within, and are stopped again."""
        self._all(signal.SIGCONT)
        try:
            yield
        finally:
            self._all(signal.SIGSTOP)

    def _all(self, number: signal.Signals) -> None:
        for process in self._processes:
            process.send_signal(number)
