"""The asynchronous loader: group reads into the arena on worker threads, verified, at a declared bandwidth if asked."""

import mmap
import os
import threading
import time
import weakref
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import xxhash

from estream_lab.errors import EStreamError
from estream_lab.experts.shape import PAGE_BYTES
from estream_lab.streaming.bandwidth import TokenBucket
from estream_lab.streaming.files import DirectFile, open_direct
from estream_lab.streaming.plan import WaitLimit
from estream_lab.streaming.store import Store
from estream_lab.workers import SETTLE_SECONDS, Workers, answered, sheltered, wait_for

BUSY_WAITS = [0.001 * 2**i for i in range(11)]  # seconds between tries while storage says that it is busy: 2 s in all

Took = tuple[int, int, int]  # start_ns, end_ns on the host clock, bytes


@dataclass(frozen=True)
class GroupRead:
    """One read: the records of a group of a layer, consecutive in experts.bin, into the views of a bank."""

    layer: int
    group: int
    group_size: int
    views: list[memoryview]


class Loader:
    """Reads groups of a store's records on ``queue_depth`` worker threads.

    The threads are daemons: a read that never returns holds up neither `settle` nor `close` nor the end of the process.

    Args:
        store: where the records are.
        queue_depth: Q, reads that may be outstanding.
        read_bandwidth: a declared limit in bytes/s for all reads together; None reads as fast as storage does.

    Raises:
        EStreamError: the records can't be opened, or aren't those that the store was opened with.
    """

    def __init__(self, store: Store, queue_depth: int, read_bandwidth: float | None = None) -> None:
        self._store = store
        self._queue_depth, self._read_bandwidth = queue_depth, read_bandwidth
        self._count = threading.Lock()
        self._arrived = self._asked = 0
        self._file = answered(partial(_open, store), f"opening {store.experts_path}", WaitLimit.of(None, 0).seconds)
        self._renew()

    @property
    def direct(self) -> bool:
        """Whether reads bypass the page cache."""
        return self._file.direct

    @property
    def fallback_reason(self) -> str:
        """Why they don't, else empty."""
        return self._file.reason

    @property
    def arrived_bytes(self) -> int:
        """Bytes that have arrived since the loader was opened; grows while a read at a declared bandwidth goes on."""
        return self._arrived

    def submit(self, read: GroupRead) -> "Future[Took]":
        """Start ``read``; the future holds (start_ns, end_ns, bytes) on the host clock or the error. At a declared
        bandwidth a read starts when it is submitted."""
        size = sum(len(view) for view in read.views)
        with self._count:
            self._asked += size
        # A declared storage has the request from now on, however long the reading thread waits for a processor.
        asked = time.perf_counter_ns()
        return self._workers.submit(partial(self._attempt, read, size, asked))

    def wait(self, read: "Future[Took]", what: str, seconds: float | None = None) -> Took:
        """What ``read`` took.

        Args:
            read: a future of `submit`.
            what: whose read it is, for the error: "group 3 of layer 0".
            seconds: to wait at most; by default what all outstanding reads take from slow storage, and 30 s.

        Raises:
            EStreamError: the read failed, was given up, or doesn't end in time.
        """
        if seconds is None:
            seconds = WaitLimit.of(self._read_bandwidth, self._asked).seconds
        return wait_for(read, what, seconds)

    def settle(self, seconds: float) -> None:
        """Drop reads that haven't started, give up those that wait for a declared bandwidth, and wait for the others to
        end: no byte arrives afterwards.

        Whole worker threads are waited for, not futures: an interrupt may have lost a future that was just submitted.

        Raises:
            EStreamError: a read goes on after ``seconds``: it may still write into its bank, never to be used again.
        """
        self._give_up()
        if not self._ended(seconds):
            raise EStreamError(f"reads from {self._file.path} did not end within {seconds:g} s: check the disk")
        self._renew()

    def close(self) -> None:
        """Give up outstanding reads and close the file. A read that goes on for long is left alone, with the file open
        until it ends.
        """
        self._give_up()
        if self._ended(SETTLE_SECONDS):
            self._file.close()

    def _renew(self) -> None:
        """Worker threads, their sign to stop, and a bandwidth that owes nothing."""
        self._stop = threading.Event()
        limit = self._read_bandwidth
        self._bucket = TokenBucket(limit, sleep=self._stop.wait) if limit is not None else None
        self._asked, self._left = 0, False
        self._workers: Workers[Took] = Workers(self._queue_depth, "estream-read")
        weakref.finalize(self, self._workers.stop)  # an engine that was left open must not leave its threads behind

    def _ended(self, seconds: float) -> bool:
        """Whether all given up reads have ended; those that were waited for once already aren't again."""
        ended = self._workers.join(0.0 if self._left else seconds)
        self._left = not ended
        return ended

    def _give_up(self) -> None:
        """Let no read start any more, then wake those that wait for bandwidth: a slow one takes minutes."""
        self._workers.stop()
        self._stop.set()

    def _attempt(self, read: GroupRead, size: int, asked_ns: int) -> Took:
        """A read as its thread runs it: whatever ends it becomes an error that says which read it was."""
        try:
            return self._read(read, asked_ns)
        except Exception:
            raise
        except BaseException as end:
            raise self._failed(read, f"the reading thread died ({end!r})", "run it again") from end
        finally:
            with self._count:
                self._asked -= size

    def _read(self, read: GroupRead, asked_ns: int) -> Took:
        start = time.perf_counter_ns() if self._bucket is None else asked_ns
        records = self._store.layers[read.layer]
        stride = records.record.stride
        first = read.group * read.group_size
        count = len(records.group_experts(read.group, read.group_size))
        offset = records.offset + first * stride
        total = self._fill(read, offset, count * stride, asked_ns / 1e9)
        for i, view in enumerate(_record_views(read.views, stride)):
            if xxhash.xxh3_64_intdigest(view) != records.checksums[first + i]:
                raise EStreamError(
                    f"expert {records.order[first + i]} of layer {read.layer} in {self._file.path} has a wrong "
                    "checksum: pack the store again"
                )
        return start, time.perf_counter_ns(), total

    def _fill(self, read: GroupRead, offset: int, total: int, asked: float) -> int:
        """Fill the views from ``offset`` on; short reads go on where they stopped."""
        done, stop, bucket = 0, self._stop, self._bucket
        most = total if bucket is None else bucket.slice_bytes
        while done < total:
            direct = self._file.direct
            got = self._ask(read, _window(read.views, done, min(most, total - done)), offset + done, stop)
            if got <= 0:
                raise EStreamError(
                    f"{self._file.path} ended {total - done} bytes early in group {read.group} of layer {read.layer}: "
                    "it was cut off while in use, pack the store again"
                )
            if direct and done + got < total and got % PAGE_BYTES:
                # a short read may end anywhere, but the next direct one must start on a page
                if got < PAGE_BYTES:
                    self._file.go_buffered("direct reads here stop within a page")
                got -= got % PAGE_BYTES
            if bucket is not None:
                bucket.take(got, asked)
                if stop.is_set():
                    raise self._given_up(read)
            with self._count:
                self._arrived += got
            done += got
        return done

    def _ask(self, read: GroupRead, window: list[memoryview], offset: int, stop: threading.Event) -> int:
        """One read; storage that is busy is asked again, more and more patiently."""
        for wait in BUSY_WAITS:
            try:
                return self._file.read_into(window, offset)
            except (InterruptedError, BlockingIOError) as busy:
                if stop.wait(wait):
                    raise self._given_up(read) from busy
                reason = busy.strerror
            except OSError as error:
                raise self._failed(read, str(error.strerror), "check the disk, or move the store") from error
        raise self._failed(
            read, f"{reason}, {len(BUSY_WAITS)} times", "wait until storage is less busy, then run it again"
        )

    def _failed(self, read: GroupRead, why: str, remedy: str) -> EStreamError:
        return EStreamError(
            f"reading group {read.group} of layer {read.layer} from {self._file.path} failed: {why}: {remedy}"
        )

    def _given_up(self, read: GroupRead) -> EStreamError:
        return EStreamError(f"the read of group {read.group} of layer {read.layer} was given up")


def verify_records(store: Store) -> int:
    """Read every expert record once and verify its checksum; returns how many.

    Raises:
        EStreamError: the first that is damaged, or can't be read.
    """
    return sheltered(partial(_verify, store))


def _verify(store: Store) -> int:
    loader = Loader(store, 1)
    view = memoryview(mmap.mmap(-1, store.stride))  # page-aligned, as direct I/O wants it
    try:
        for layer, records in enumerate(store.layers):
            for place in range(len(records.order)):
                read = loader.submit(GroupRead(layer, place, 1, [view[: records.record.stride]]))
                loader.wait(read, f"record {place} of layer {layer} in {store.experts_path}")
    finally:
        loader.close()
    return sum(len(records.order) for records in store.layers)


def _open(store: Store) -> DirectFile:
    file = open_direct(store.experts_path)
    size = os.fstat(file.fd).st_size
    if size != store.experts_bytes:
        file.close()
        raise EStreamError(
            f"{store.experts_path} has {size} bytes where the manifest says {store.experts_bytes}: it was changed "
            "since the store was opened, pack the store again"
        )
    return file


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
