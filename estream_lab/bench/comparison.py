"""Our kernels and peers on MoE layers, in one process-interleaved run."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numba
import numpy as np

from estream_lab import __version__
from estream_lab.bench import environment, memory
from estream_lab.bench.accuracy import errors
from estream_lab.bench.competitors import Competitors
from estream_lab.bench.inputs import Inputs
from estream_lab.bench.ours import our_rows
from estream_lab.bench.peers import peers
from estream_lab.bench.results import RowTimes, describe, held_to, standing
from estream_lab.bench.rounds import interleave
from estream_lab.bench.rows import Job, Prepared, Row
from estream_lab.bench.session import BETWEEN_TURNS, Unsupported
from estream_lab.bench.shapes import LayerShape
from estream_lab.bench.weights import Weights
from estream_lab.machine import available_cpus, processor

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
    competitors: int = 0,
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
        peaks: measures what this machine reaches with so many threads, see `peaks.peaks`. It is asked before and after
            every layer, and the best counts.
        progress: is told of every run.
        competitors: busy processes beside which every row is timed as often again.

    Returns:
        A JSON object: the machine, versions, how each peer was built, rows that peers don't have here, what others used
        of the machine in each round, and the rows.

    Raises:
        EStreamError: a peer is missing or fails, a row computes something else, or memory doesn't suffice.
    """
    load = os.getloadavg()[0]
    layers: list[_Layer] = []
    best = dict(peaks(threads))
    with peers(names) as (theirs, builds), Competitors(competitors) as busy:
        every: list[Row] = [*our_rows(), *theirs]
        peak = memory.check(every, shapes, tokens)
        for shape in shapes:
            weights = Weights.write(shape, folder, _WEIGHTS)
            for size in tokens:
                job = Job(weights, size, threads, folder)
                layers.append(_layer(every, job, rounds, kinds, busy if competitors else None, progress))
                best = {kind: max(rate, best[kind]) for kind, rate in peaks(threads).items()}
            weights.remove()
    return {
        "machine": processor(),
        "kind": "measured",
        "versions": {"estream-lab": __version__, "numpy": np.__version__, "numba": numba.__version__},
        "threads": threads,
        "processors": available_cpus(),
        "rounds": rounds,
        "competitors": competitors,
        "load_before": load,
        "load_after": os.getloadavg()[0],
        "other_load": [share for layer in layers for share in layer.other_load],
        "environment": environment.told(),
        "between_turns": BETWEEN_TURNS,
        "memory_bytes": peak,
        "peak": best,
        "peer_build": builds,
        "unsupported": [row for layer in layers for row in layer.refused],
        "rows": held_to([row for layer in layers for row in layer.rows], best),
    }


@dataclass(frozen=True)
class _Layer:
    """One shape at one number of tokens: the rows' results, who didn't take part for which reason, and the load of
    others in each round.
    """

    rows: list[dict[str, Any]]
    refused: list[dict[str, Any]]
    other_load: list[float]


def _layer(
    rows: Sequence[Row],
    job: Job,
    rounds: int,
    kinds: Sequence[str],
    competitors: Competitors | None,
    progress: Progress,
) -> _Layer:
    shape = job.weights.shape
    what = f"{shape.name}, {job.tokens} tokens"
    ready: list[tuple[Row, Prepared]] = []
    refused: list[dict[str, Any]] = []
    for i, row in enumerate(rows):
        progress(f"{what}: preparing", i, len(rows))
        try:
            ready.append((row, row.prepare(job)))
        except Unsupported as reason:
            who = {"implementation": row.implementation, "name": row.name}
            refused.append({"shape": shape.name, "tokens": job.tokens, **who, "reason": str(reason)})
    found = errors(ready, job, kinds, _INPUTS, _counted(progress, f"{what}: errors", len(ready)))
    experts: list[int] = []

    def draw(turn: int) -> Inputs:
        inputs = Inputs.draw(shape, job.tokens, "gaussian", _INPUTS + 100 + turn, job.folder / "round.inputs")
        experts.append(len(np.unique(inputs.expert)))
        return inputs

    calls = rounds * len(ready) * (2 if competitors else 1)
    timed = interleave(
        [row.run for row, _ in ready], rounds, draw, _counted(progress, f"{what}: rounds", calls),
        processes=sorted({row.process for row, _ in ready if row.process is not None}), competitors=competitors,
    )  # fmt: skip
    for row, _ in ready:
        row.release()
    times = [RowTimes(*pair, float(np.mean(experts))) for pair in zip(timed.seconds, timed.contended, strict=True)]
    described = [
        describe(row, prepared, job, of_row, errors_of_row)
        for (row, prepared), of_row, errors_of_row in zip(ready, times, found, strict=True)
    ]
    return _Layer(standing(described), refused, timed.other_load)


def _counted(progress: Progress, what: str, total: int) -> Callable[[], None]:
    """Tells of one more each time it is called."""
    number = count(1)
    return lambda: progress(what, next(number), total)
