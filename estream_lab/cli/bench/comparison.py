"""Rows measured against each other in one interleaved run.

Its rounds take the rows in rotating order, so that whatever else this computer does falls on all of them alike; figures
are medians over the rounds.
"""

import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from estream_lab.cli.bench.samples import Sample, bare_reads, request
from estream_lab.errors import EStreamError
from estream_lab.machine import available_cpus, processor
from estream_lab.streaming import Store

SCHEDULES: dict[str, dict[str, Any]] = {
    "on-demand": {"schedule": "on-demand"},
    "after-routing": {"schedule": "after-routing"},
    "early": {"schedule": "early"},
    "early, carried over": {"schedule": "early", "carry_over": True},
}
RESIDENT, READS = "resident", "bare reads"
PILOTS = 3  # resident runs that declared limits are derived from


@dataclass(frozen=True)
class _Limit:
    """Reads at the disk's own speed, or held to a declared bandwidth in bytes/s, ``factor`` times the balanced one."""

    factor: float | None = None
    bandwidth: float | None = None


_Row = tuple[_Limit | None, str]  # under which limit, and what; resident runs read nothing and stand under none


def compare(
    store: Store, tokens: NDArray[np.int32], settings: dict[str, Any], factors: list[float], rounds: int
) -> dict[str, Any]:
    """Every schedule at the disk's own speed and under declared limits, all experts resident, and bare reads.

    Args:
        store: of the model.
        tokens: (T,), the prompt.
        settings: group_size, banks, queue_depth and threads of every row.
        factors: declared limits, in parts of the bandwidth at which reading takes as long as computing.
        rounds: runs of every row.

    Raises:
        EStreamError: settings that the store can't be run with, or two rows that disagree about the logits.
    """
    load = os.getloadavg()[0]
    limits = [_Limit(), *_declared(store, tokens, settings, factors)]
    samples = _interleave(_rows(store, tokens, settings, limits), rounds)
    return {
        "machine": processor(),
        "kind": "measured",
        "model": str(store.origin.get("checkpoint", "")),
        "store_bytes": store.nbytes,
        "tokens": len(tokens),
        **settings,
        "threads": settings["threads"] or available_cpus(),
        "rounds": rounds,
        "load_before": load,
        "load_after": os.getloadavg()[0],
        "resident": _figures(samples[None, RESIDENT]),
        "limits": [_under(limit, samples) for limit in limits],
    }


def _rows(
    store: Store, tokens: NDArray[np.int32], settings: dict[str, Any], limits: list[_Limit]
) -> dict[_Row, Callable[[], Sample]]:
    shape = (settings["group_size"], settings["banks"], settings["queue_depth"])
    rows: dict[_Row, Callable[[], Sample]] = {
        (None, RESIDENT): partial(request, store, tokens, resident=True, **settings)
    }
    for limit in limits:
        rows[limit, READS] = partial(bare_reads, store, *shape, limit.bandwidth)
        for name, schedule in SCHEDULES.items():
            rows[limit, name] = partial(request, store, tokens, read_bandwidth=limit.bandwidth, **schedule, **settings)
    return rows


def _declared(store: Store, tokens: NDArray[np.int32], settings: dict[str, Any], factors: list[float]) -> list[_Limit]:
    """Limits around the bandwidth at which reading what the prompt needs takes as long as its resident run."""
    if not factors:
        return []
    needed = request(store, tokens, **settings).bytes_needed
    resident = statistics.median(request(store, tokens, resident=True, **settings).seconds for _ in range(PILOTS))
    return [_Limit(factor, factor * needed / resident) for factor in factors]


def _interleave(rows: dict[_Row, Callable[[], Sample]], rounds: int) -> dict[_Row, list[Sample]]:
    """Every row once a round; each round begins one row later than the one before."""
    names = list(rows)
    samples: dict[_Row, list[Sample]] = {name: [] for name in names}
    pause = 0.1 if sys.stderr.isatty() else 10  # seconds: a log file isn't a terminal
    with tqdm(total=rounds * len(rows), unit="run", desc="schedules", mininterval=pause) as bar:
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                samples[name].append(rows[name]())
                bar.update()
    outputs = {sample.logits_sha256 for runs in samples.values() for sample in runs} - {""}
    if len(outputs) != 1:
        raise EStreamError("two schedules gave different logits: this is a fault of the program, please report it")
    return samples


def _figures(runs: list[Sample]) -> dict[str, Any]:
    """Medians, and every run."""
    names = ("seconds", "cpu_seconds", "storage_idle", "compute_idle", "peak_rss_bytes")
    medians = {name: statistics.median(getattr(run, name) for run in runs) for name in names}
    counts = {name: getattr(runs[0], name) for name in ("bytes_read", "bytes_needed", "bytes_speculative")}
    return medians | counts | {"runs": [run.to_json() for run in runs]}


def _under(limit: _Limit, samples: dict[_Row, list[Sample]]) -> dict[str, Any]:
    """The rows under one limit, each held to the bound: the longer of computing and reading.

    That is max(T_resident, bytes / bandwidth), all three measured in this run.
    """
    resident, reads = samples[None, RESIDENT], samples[limit, READS]
    computing = statistics.median(run.seconds for run in resident)
    bandwidth = statistics.median(run.bytes_read / run.seconds for run in reads)
    needed = samples[limit, next(iter(SCHEDULES))][0].bytes_needed
    bound = max(computing, needed / bandwidth)
    rows = {}
    for name in SCHEDULES:
        rows[name] = _figures(samples[limit, name])
        rows[name]["ratio"] = rows[name]["seconds"] / bound
    return {
        "factor": limit.factor,
        "read_bandwidth": limit.bandwidth,
        "bandwidth": bandwidth,
        "bare_reads": [run.to_json() for run in reads],
        "bound_seconds": bound,
        "binds": "computing" if computing >= needed / bandwidth else "reading",
        "rows": rows,
    }
