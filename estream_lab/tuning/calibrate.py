"""Calibration: requests on the real engine at every candidate g and queue depth, for a profile."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from estream_lab.engine import MemoryPlan, PrefillEngine, PrefillResult
from estream_lab.engine.memory import RERUN_BYTES
from estream_lab.errors import EStreamError
from estream_lab.streaming import Store
from estream_lab.tuning.calibration import Calibration, banks_to_calibrate
from estream_lab.tuning.grids import QUEUE_DEPTHS, group_sizes
from estream_lab.tuning.profile import Origin, Profile
from estream_lab.tuning.service import fit

PAUSE_SECONDS = 0.1  # between two drawings of a bar


def calibrate(
    store: Store,
    tokens: NDArray[np.int32],
    *,
    prompt: str,
    sizes: Sequence[int] | None = None,
    depths: Sequence[int] = QUEUE_DEPTHS,
    rounds: int = 2,
    threads: int | None = None,
    read_bandwidth: float | None = None,
    progress: bool = False,
) -> Profile:
    """Measure a profile.

    Each g and depth runs ``rounds`` times, all in turn, each in an engine of its own whose first request only touches
    memory. The smallest g comes first, and its memory is watched: M_other is what its process held outside the arena,
    or what the engine plans for a process like it, if that is more (so that the engine accepts what is configured).
    Banks are those of `calibration.banks_to_calibrate`, of which no layer uses more than it has groups.

    Args:
        store: of the model. tokens: (T,), the prompt; ``prompt`` says what it is.
        sizes: candidates g; by default those of `grids.group_sizes`. depths: of the queue.
        rounds: samples of each. threads: of the kernels, every processor by default.
        read_bandwidth: a declared limit in bytes/s.
        progress: a bar on standard error.

    Raises:
        EStreamError: settings that the store can't be run with, or storage that fails.
    """
    pairs = _pairs(store, group_sizes(store.spec.experts) if sizes is None else sizes, depths)
    smallest = pairs[0][0]
    runs, peaks = [], []
    with tqdm(
        total=rounds * len(pairs), unit="run", desc="calibration", leave=False, mininterval=PAUSE_SECONDS,
        disable=not progress,
    ) as bar:  # fmt: skip
        for _ in range(rounds):
            for size, depth in pairs:
                settings = {"threads": threads, "read_bandwidth": read_bandwidth}
                plan, result = _request(store, tokens, size, depth, **settings)
                runs.append(Calibration.of(result.trace))
                if size == smallest:
                    peaks.append((result.peak_rss_bytes - result.arena_bytes, plan.other_bytes + RERUN_BYTES))
                bar.update()
    seen, planned = (max(peak) for peak in zip(*peaks, strict=True))
    routes = _routes(store, result)
    return Profile(
        origin=_origin(store, result, prompt),
        routes=tuple(tuple(int(count) for count in layer) for layer in routes),
        record_bytes=tuple(layer.record.stride for layer in store.layers),
        slot_bytes=store.stride,
        other_bytes=max(seen, planned),
        measured_other_bytes=seen,
        runs=tuple(runs),
        service=fit([
            (layer, routes[layer, group * run.group_size : (group + 1) * run.group_size], float(ns))
            for run in runs
            for layer, group, ns in run.executions
        ]),
    )  # fmt: skip


def _pairs(store: Store, sizes: Sequence[int], depths: Sequence[int]) -> list[tuple[int, int]]:
    """Every (g, q) with at least q groups a layer, the smallest g first."""
    if not sizes:
        raise EStreamError("a profile needs at least one group size: give some")
    missing = sorted({1, *range(1, max(depths, default=0))} - set(depths))
    if missing:
        raise EStreamError(
            f"queue depth {missing[0]} is left out, and with {missing[0]} banks no more reads can be under way: give "
            "every depth from 1 on"
        )
    return [
        (size, depth)
        for size in sorted(set(sizes))
        for depth in sorted(set(depths))
        if depth <= max(1, -(-store.spec.experts // size))
    ]


def _request(
    store: Store, tokens: NDArray[np.int32], size: int, depth: int, **settings: Any
) -> tuple[MemoryPlan, PrefillResult]:
    """What is planned, and the second request of an engine."""
    settings |= {"group_size": size, "queue_depth": depth, "banks": banks_to_calibrate(depth)}
    with PrefillEngine.open(store, **settings) as engine:
        plan = engine.prepare(len(tokens))
        engine.prefill(tokens)
        return plan, engine.prefill(tokens)


def _routes(store: Store, result: PrefillResult) -> NDArray[np.int64]:
    """Routes of each expert in the store's order: (layers, E)."""
    counts = [np.bincount(result.routes[i].expert, minlength=store.spec.experts) for i in range(store.spec.layers)]
    return np.stack([count[layer.order] for count, layer in zip(counts, store.layers, strict=True)])


def _origin(store: Store, result: PrefillResult, prompt: str) -> Origin:
    return Origin(
        machine=result.machine,
        store_checksum=store.checksum,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        model=str(store.origin.get("checkpoint", "")),
        prompt=prompt,
        tokens=result.tokens,
        threads=result.threads,
        numerics_profile=result.profile,
        read_bandwidth=result.read_bandwidth,
        direct_io=result.direct_io,
    )
