"""One timed request, or one pass of bare reads: what the bench of schedules repeats."""

import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.experts import Arena
from estream_lab.streaming import Store
from estream_lab.streaming.loader import GroupRead, Loader


@dataclass(frozen=True)
class Sample:
    """Figures of one run.

    Attributes:
        seconds: wall time; cpu_seconds: of all threads of this process, system calls included.
        bytes_read = bytes_needed + bytes_speculative; storage_idle, compute_idle: shares of the time.
        peak_rss_bytes: of this process during the request.
        logits_sha256: of the output; empty for bare reads.
        schedule, carry_over, read_bandwidth: what it ran under, as its result says; 0 for no declared limit.
    """

    seconds: float
    cpu_seconds: float
    bytes_read: int
    bytes_needed: int
    bytes_speculative: int
    storage_idle: float
    compute_idle: float
    peak_rss_bytes: int
    logits_sha256: str
    schedule: str
    carry_over: bool
    read_bandwidth: float

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def request(store: Store, tokens: NDArray[np.int32], **settings: Any) -> Sample:
    """A prefill of ``tokens`` in a fresh engine: its second request, the first has touched all memory.

    Raises:
        EStreamError: settings that the store can't be run with, or storage that fails.
    """
    with PrefillEngine.open(store, **settings) as engine:
        engine.prefill(tokens)
        before = time.process_time()
        result = engine.prefill(tokens)
        cpu = time.process_time() - before
    return Sample(
        seconds=result.seconds,
        cpu_seconds=cpu,
        bytes_read=result.bytes_read,
        bytes_needed=result.bytes_needed,
        bytes_speculative=result.bytes_speculative,
        storage_idle=result.storage_idle,
        compute_idle=result.npu_idle,
        peak_rss_bytes=result.peak_rss_bytes,
        logits_sha256=result.logits_sha256,
        schedule=result.schedule,
        carry_over=result.carry_over,
        read_bandwidth=result.read_bandwidth,
    )


def bare_reads(store: Store, group_size: int, banks: int, queue_depth: int, read_bandwidth: float | None) -> Sample:
    """Every group of the store read once, as a lane reads it (direct I/O, verified, ``queue_depth`` outstanding, into
    ``banks`` banks), with nothing computed: what the disk, or a declared limit, gives.

    Raises:
        EStreamError: a read fails.
    """
    arena = Arena(banks, group_size, store.stride)
    arena.memory.fill(0)  # page faults are no part of a read
    groups = [
        (layer, group) for layer, records in enumerate(store.layers) for group in range(records.groups(group_size))
    ]
    loader, line, free = Loader(store, queue_depth, read_bandwidth), iter(groups), list(range(banks))
    reading: dict[Future[tuple[int, int, int]], int] = {}
    total, cpu, start = 0, time.process_time(), time.perf_counter()
    try:
        while True:
            while len(reading) < queue_depth and (key := next(line, None)) is not None:
                layer, group = key
                bank, records = free.pop(0), store.layers[layer]
                count = len(records.group_experts(group, group_size))
                views = arena.bank_view(bank, count, records.record.stride)
                reading[loader.submit(GroupRead(layer, group, group_size, views))] = bank
            if not reading:
                break
            for done in wait(reading, return_when=FIRST_COMPLETED).done:
                free.append(reading.pop(done))
                total += done.result()[2]
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    finally:
        loader.close()
    return Sample(seconds, cpu, total, total, 0, 0.0, 1.0, 0, "", "none", False, read_bandwidth or 0.0)
