"""A declared read bandwidth: reads arrive in slices, each when the bandwidth allows it."""

import threading
import time
from collections.abc import Callable

from estream_lab.errors import EStreamError
from estream_lab.experts.shape import PAGE_BYTES

SLICE_SECONDS = 0.02  # short, so that outstanding reads share the bandwidth; each costs a processor 0.3 ms
SLICE_BYTES = 64 * 1024  # and not below this, for the cost of it,
SHOW_SECONDS = 0.05  # unless that takes longer than this, so that progress shows; down to a page


class TokenBucket:
    """A declared read bandwidth, shared by all outstanding reads; no burst.

    Args:
        bytes_per_second: the limit, > 0.
        clock, sleep: replaceable for tests; seconds.
    """

    def __init__(
        self,
        bytes_per_second: float,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        if not bytes_per_second > 0:
            raise EStreamError(f"a read bandwidth must be positive, not {bytes_per_second:g} bytes/s")
        self.bytes_per_second, self._clock, self._sleep = bytes_per_second, clock, sleep
        self._lock, self._free_at = threading.Lock(), 0.0

    @property
    def slice_bytes(self) -> int:
        """What one read should ask for: whole pages."""
        wanted = min(max(SLICE_BYTES, self.bytes_per_second * SLICE_SECONDS), self.bytes_per_second * SHOW_SECONDS)
        return max(1, int(wanted) // PAGE_BYTES) * PAGE_BYTES

    def take(self, count: int, asked: float) -> None:
        """Wait until ``count`` bytes may have arrived of a read that was asked for at the time ``asked``.

        The storage that this stands for works on an outstanding read while the thread that waits for it is late, so
        only time in which nothing was asked of it is lost.
        """
        with self._lock:
            self._free_at = max(asked, self._free_at) + count / self.bytes_per_second
            until = self._free_at
        if (wait := until - self._clock()) > 0:
            self._sleep(wait)
