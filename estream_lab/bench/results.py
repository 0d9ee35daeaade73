"""A bench's rows as plain JSON types, and where each stands among the others."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from estream_lab.bench.reference import Error
from estream_lab.bench.rows import Job, Prepared, Row


@dataclass(frozen=True)
class RowTimes:
    """Of one row: seconds round by round, alone and while competitors ran; experts that have routes, on average."""

    seconds: Sequence[float]
    contended: Sequence[float]
    experts: float


def describe(
    row: Row,
    prepared: Prepared,
    job: Job,
    times: RowTimes,
    errors: Mapping[str, Error],
) -> dict[str, Any]:
    """One row's figures.

    `relative_error` is that of the first kind of activations, `token_error` the largest of a single token there;
    `macs_per_weight_byte` holds the layer's multiply-accumulates against the weights of the experts that its routes
    reach, read once; `slowdown` = its time while competitors ran / without in the same round, the median of all rounds,
    None where there were none.
    """
    middle, shape = statistics.median(times.seconds), job.weights.shape
    macs, first = shape.macs(job.tokens), next(iter(errors.values()))
    read = times.experts * shape.weights / shape.experts * row.bytes_per_weight
    return {
        "shape": shape.name,
        "tokens": job.tokens,
        "implementation": row.implementation,
        "name": row.name,
        "quant": row.quant,
        "arithmetic": prepared.arithmetic,
        "threads": job.threads,
        "default": row.default,
        "seconds_median": middle,
        "seconds": list(times.seconds),
        "seconds_contended": list(times.contended),
        "slowdown": _slowdown(times),
        "macs_per_second": macs / middle,
        "bytes_per_weight": row.bytes_per_weight,
        "macs_per_weight_byte": macs / read,
        "relative_error": first.whole,
        "relative_errors": {kind: error.whole for kind, error in errors.items()},
        "token_error": first.token,
        "token_errors": {kind: error.token for kind, error in errors.items()},
        **prepared.notes,
    }


def _slowdown(times: RowTimes) -> float | None:
    """By round, so that what else slows some rounds down is in both of its times."""
    if not times.contended:
        return None
    return statistics.median(busy / alone for busy, alone in zip(times.contended, times.seconds, strict=True))


def standing(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of one layer with their times in parts of others'; None where the other isn't there.

    `times_ours` = a row's time / ours (our first row's); `times_default` = it / that of ggml's default, which is its
    first Q4_0 row; `times_fastest` = it / that of ggml's fastest row, found anew in every run.
    """
    ggml = [row for row in rows if row["implementation"] == "ggml"]
    mine = [row for row in rows if row["implementation"] == "estream"]
    ours = mine[0] if mine else None
    default = next((row for row in ggml if row["default"]), None)
    fastest = min(ggml, key=lambda row: float(row["seconds_median"]), default=None)
    roles = (("times_ours", ours), ("times_default", default), ("times_fastest", fastest))
    return [
        row
        | {"default": row is default or (row in mine and row["default"]), "fastest": row is fastest}
        | {key: row["seconds_median"] / other["seconds_median"] if other else None for key, other in roles}
        for row in rows
    ]


def held_to(rows: list[dict[str, Any]], peaks: Mapping[str, float]) -> list[dict[str, Any]]:
    """The rows with `fraction_of_peak`: the layer's multiply-accumulates a second in parts of what this machine's
    registers reach in the row's arithmetic; None where that peak wasn't measured.
    """
    return [
        row
        | {"fraction_of_peak": row["macs_per_second"] / peaks[kind] if (kind := row["arithmetic"]) in peaks else None}
        for row in rows
    ]
