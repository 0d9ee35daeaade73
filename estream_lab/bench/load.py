"""How much of this computer others used while a bench ran: its times mean little if that was much."""

import os
import time
from collections.abc import Sequence

import psutil

from estream_lab.machine import busy_seconds

LARGEST = 0.05
"""Share of the processors' time that others may take in a round before a reader is warned."""


class OtherLoad:
    """Watches everything that runs here but this process and some others.

    Args:
        processes: ids of those that belong to the bench; they live as long as it is watched.
    """

    def __init__(self, processes: Sequence[int] = ()) -> None:
        self._mine = [psutil.Process(), *(psutil.Process(number) for number in processes)]
        self._last = self._read()

    def lap(self) -> float:
        """Share of all processors' time, 0 to 1, that others took since the last lap, or since the beginning.

        The system counts in hundredths of a second: of a lap of a second, some hundredths are uncertain.
        """
        now = self._read()
        (start, busy, mine), self._last = self._last, now
        others = (now[1] - busy) - (now[2] - mine)
        return min(1.0, max(0.0, others / ((now[0] - start) * (os.cpu_count() or 1))))

    def _read(self) -> tuple[float, float, float]:
        """Clock, busy seconds of the computer, and of what belongs to the bench."""
        times = [process.cpu_times() for process in self._mine]
        return time.perf_counter(), busy_seconds(), sum(each.user + each.system for each in times)
