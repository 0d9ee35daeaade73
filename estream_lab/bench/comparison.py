"""Our kernels and peers on MoE layers, in one process-interleaved run."""

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numba
import numpy as np

from estream_lab import __version__
from estream_lab.bench.accuracy import errors
from estream_lab.bench.inputs import Inputs
from estream_lab.bench.ours import our_rows
from estream_lab.bench.peers import peers
from estream_lab.bench.results import describe, held_to, standing
from estream_lab.bench.rounds import interleave
from estream_lab.bench.rows import Job, Prepared, Row
from estream_lab.bench.session import Unsupported
from estream_lab.bench.shapes import LayerShape
from estream_lab.bench.weights import Weights
from estream_lab.errors import EStreamError
from estream_lab.machine import available_memory_bytes, processor

Progress = Callable[[str, int, int], None]
"""Called with what is done, how much of it, and of how much."""

_WEIGHTS, _INPUTS = 5, 1000  # seeds; those of inputs count on: equal ones would make activations of weights


def compare(
    shapes: Sequence[LayerShape],
    tokens: Sequence[int],
    names: Sequence[str],
    *,
    threads: int,
    rounds: int,
    kinds: Sequence[str],
    folder: Path,
    peaks: Callable[[int], Mapping[str, float]],
    progress: Progress,
) -> dict[str, Any]:
    """Every row on every shape at every number of tokens.

    Args:
        shapes: layers.
        tokens: numbers of tokens, T.
        names: of peers, see `peers.PEERS`.
        threads: of every row.
        rounds: runs of every row.
        kinds: of activations that errors are taken for, see `inputs.KINDS`; times are taken on Gaussian ones.
        folder: where files lie that peers read; they are removed again.
        peaks: measures what this machine's registers reach with so many threads: multiply-accumulates a second, by
            arithmetic. It is asked before and after every layer, and the best counts.
        progress: is told of every run.

    Returns:
        A JSON object: the machine, versions, how each peer was built, rows that peers don't have here, and the rows.

    Raises:
        EStreamError: a peer is missing or fails, a row computes something else, or memory doesn't suffice.
    """
    load = os.getloadavg()[0]
    rows: list[dict[str, Any]] = []
    best = dict(peaks(threads))
    unsupported: list[dict[str, Any]] = []
    with peers(names) as (theirs, builds):
        for shape in shapes:
            weights = Weights.write(shape, folder, _WEIGHTS)
            for size in tokens:
                job = Job(weights, size, threads, folder)
                timed, refused = _layer([*our_rows(), *theirs], job, rounds, kinds, progress)
                rows += timed
                best = {kind: max(rate, best[kind]) for kind, rate in peaks(threads).items()}
                unsupported += [{"shape": shape.name, "tokens": size, **row} for row in refused]
            weights.plain.unlink()
            weights.blocks.unlink()
    return {
        "machine": processor(),
        "kind": "measured",
        "versions": {"estream-lab": __version__, "numpy": np.__version__, "numba": numba.__version__},
        "threads": threads,
        "rounds": rounds,
        "load_before": load,
        "load_after": os.getloadavg()[0],
        "peak": best,
        "peer_build": builds,
        "unsupported": unsupported,
        "rows": held_to(rows, best),
    }


def _layer(
    rows: Sequence[Row],
    job: Job,
    rounds: int,
    kinds: Sequence[str],
    progress: Progress,
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """One shape at one number of tokens: the rows' results, and who didn't take part for which reason."""
    shape, folder = job.weights.shape, job.folder
    _check_memory(rows, job)
    what = f"{shape.name}, {job.tokens} tokens"
    ready: list[tuple[Row, Prepared]] = []
    refused: list[dict[str, str]] = []
    for i, row in enumerate(rows):
        progress(f"{what}: preparing", i, len(rows))
        try:
            ready.append((row, row.prepare(job)))
        except Unsupported as reason:
            refused.append({"implementation": row.implementation, "name": row.name, "reason": str(reason)})
    found = errors(ready, job, kinds, _INPUTS, _counted(progress, f"{what}: errors", len(ready)))
    seconds = interleave(
        [row for row, _ in ready],
        rounds,
        lambda turn: Inputs.draw(shape, job.tokens, "gaussian", _INPUTS + 100 + turn, folder / "round.inputs"),
        _counted(progress, f"{what}: rounds", rounds * len(ready)),
    )
    for row, _ in ready:
        row.release()
    described = [
        describe(row, prepared, job, times, errors_of_row)
        for (row, prepared), times, errors_of_row in zip(ready, seconds, found, strict=True)
    ]
    return standing(described), refused


def _counted(progress: Progress, what: str, total: int) -> Callable[[], None]:
    """Tells of one more each time it is called."""
    number = count(1)
    return lambda: progress(what, next(number), total)


def _check_memory(rows: Sequence[Row], job: Job) -> None:
    """All rows hold their weights and every route's intermediates at once, because they take turns."""
    shape = job.weights.shape
    intermediates = 4 * job.tokens * shape.top_k * (3 * shape.ffn + 2 * shape.hidden)
    needed = int(sum(row.bytes_per_weight * shape.weights + intermediates for row in rows))
    available = available_memory_bytes()
    if needed > available:
        raise EStreamError(
            f"{len(rows)} rows of {shape.name} with {job.tokens} tokens need {needed / 2**30:.1f} GiB, and "
            f"{available / 2**30:.1f} GiB are free: choose another --shape, fewer --tokens or fewer peers"
        )
