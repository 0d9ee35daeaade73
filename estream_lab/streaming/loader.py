"""The asynchronous loader: group reads into the arena on worker threads, verified, at a declared bandwidth if asked."""

import mmap
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import xxhash

from estream_lab.errors import EStreamError
from estream_lab.experts.shape import PAGE_BYTES
from estream_lab.streaming.files import open_direct
from estream_lab.streaming.store import Store

SLICE_BYTES = 64 * 1024  # of a read at a declared bandwidth; small, so that outstanding reads share it evenly


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

    def take(self, count: int) -> None:
        """Wait until ``count`` bytes may have arrived."""
        with self._lock:
            self._free_at = max(self._clock(), self._free_at) + count / self.bytes_per_second
            until = self._free_at
        if (wait := until - self._clock()) > 0:
            self._sleep(wait)


@dataclass(frozen=True)
class GroupRead:
    """One read: the records of a group of a layer, consecutive in experts.bin, into the views of a bank."""

    layer: int
    group: int
    group_size: int
    views: list[memoryview]


class Loader:
    """Reads groups of a store's records on ``queue_depth`` worker threads.

    Args:
        store: where the records are.
        queue_depth: Q, reads that may be outstanding.
        read_bandwidth: a declared limit in bytes/s for all reads together; None reads as fast as storage does.
    """

    def __init__(self, store: Store, queue_depth: int, read_bandwidth: float | None = None) -> None:
        self._store = store
        self._queue_depth, self._read_bandwidth = queue_depth, read_bandwidth
        self._renew()
        self._file = open_direct(store.experts_path)

    @property
    def direct(self) -> bool:
        """Whether reads bypass the page cache."""
        return self._file.direct

    @property
    def fallback_reason(self) -> str:
        """Why they don't, else empty."""
        return self._file.reason

    def submit(self, read: GroupRead) -> Future[tuple[int, int, int]]:
        """Start ``read``; the future holds (start_ns, end_ns, bytes) on the host clock or the error."""
        return self._workers.submit(self._read, read)

    def settle(self, seconds: float) -> None:
        """Drop reads that haven't started, give up those that wait for a declared bandwidth, and wait for the others to
        end: no byte arrives afterwards.

        Whole worker threads are waited for, not futures: an interrupt may have lost a future that was just submitted.

        Raises:
            EStreamError: a read goes on after ``seconds``.
        """
        workers = self._workers
        self._give_up()
        self._renew()
        ending = threading.Thread(target=partial(workers.shutdown, wait=True, cancel_futures=True), daemon=True)
        ending.start()
        ending.join(seconds)
        if ending.is_alive():
            raise EStreamError(f"reads from {self._file.path} did not end within {seconds:g} s: check the disk")

    def close(self) -> None:
        """Give up outstanding reads and close the file once they have ended."""
        self._give_up()
        self._workers.shutdown(wait=True)
        self._file.close()

    def _renew(self) -> None:
        """Worker threads, their sign to stop, and a bandwidth that owes nothing."""
        self._stop = threading.Event()
        limit = self._read_bandwidth
        self._bucket = TokenBucket(limit, sleep=self._stop.wait) if limit is not None else None
        self._workers = ThreadPoolExecutor(self._queue_depth, thread_name_prefix="estream-read")

    def _give_up(self) -> None:
        """Let no read start any more, then wake those that wait for bandwidth: a slow one takes minutes."""
        self._workers.shutdown(wait=False, cancel_futures=True)
        self._stop.set()

    def _read(self, read: GroupRead) -> tuple[int, int, int]:
        start = time.perf_counter_ns()
        records = self._store.layers[read.layer]
        stride = records.record.stride
        first = read.group * read.group_size
        count = len(records.group_experts(read.group, read.group_size))
        offset = records.offset + first * stride
        total = self._fill(read, offset, count * stride)
        for i, view in enumerate(_record_views(read.views, stride)):
            if xxhash.xxh3_64_intdigest(view) != records.checksums[first + i]:
                raise EStreamError(
                    f"expert {records.order[first + i]} of layer {read.layer} in {self._file.path} has a wrong "
                    "checksum: pack the store again"
                )
        return start, time.perf_counter_ns(), total

    def _fill(self, read: GroupRead, offset: int, total: int) -> int:
        """Fill the views from ``offset`` on; short reads go on where they stopped."""
        done, stop, bucket = 0, self._stop, self._bucket
        while done < total:
            limit = total - done if bucket is None else min(SLICE_BYTES, total - done)
            try:
                got = self._file.read_into(_window(read.views, done, limit), offset + done)
            except OSError as error:
                raise EStreamError(
                    f"reading group {read.group} of layer {read.layer} from {self._file.path} failed: {error.strerror}"
                ) from error
            if self._file.direct and done + got < total:
                got -= got % PAGE_BYTES  # a short read may end anywhere, but the next direct one must start on a page
            if got <= 0:
                raise EStreamError(
                    f"{self._file.path} ended {total - done} bytes early in group {read.group} of layer {read.layer}: "
                    "it was cut off while in use, pack the store again"
                )
            if bucket is not None:
                bucket.take(got)
                if stop.is_set():
                    raise EStreamError(f"the read of group {read.group} of layer {read.layer} was given up")
            done += got
        return done


def verify_records(store: Store) -> int:
    """Read every expert record once and verify its checksum; returns how many.

    Raises:
        EStreamError: the first that is damaged.
    """
    loader = Loader(store, 1)
    view = memoryview(mmap.mmap(-1, store.stride))  # page-aligned, as direct I/O wants it
    try:
        for layer, records in enumerate(store.layers):
            for place in range(len(records.order)):
                loader.submit(GroupRead(layer, place, 1, [view[: records.record.stride]])).result()
    finally:
        loader.close()
    return sum(len(records.order) for records in store.layers)


def _window(views: list[memoryview], skip: int, count: int) -> list[memoryview]:
    """The part of ``views``, seen as one sequence of bytes, from ``skip`` on, ``count`` bytes long."""
    window = []
    for view in views:
        if skip >= len(view):
            skip -= len(view)
            continue
        part = view[skip : skip + count]
        skip, count = 0, count - len(part)
        window.append(part)
        if not count:
            break
    return window


def _record_views(views: list[memoryview], stride: int) -> list[memoryview]:
    """One view a record."""
    return [view[at : at + stride] for view in views for at in range(0, len(view), stride)]
