"""Why a choice was slower than the fastest: both measured once more, their traces held against the profile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.streaming import Store
from estream_lab.tuning.calibration import Calibration
from estream_lab.tuning.grids import Configuration
from estream_lab.tuning.models import MODELS
from estream_lab.tuning.profile import Profile

REQUESTS = 3  # of which the one of median time is taken apart


@dataclass(frozen=True)
class Traced:
    """One more request with a configuration: its seconds, and its service times."""

    seconds: float
    times: Calibration


@dataclass(frozen=True)
class Part:
    """A part of a request in seconds, as the profile has it and as a trace shows it."""

    name: str
    predicted: float
    traced: float


@dataclass(frozen=True)
class Account:
    """One configuration, taken apart.

    Attributes:
        configuration: (Q, B, G). predicted_seconds: by the model. traced_seconds: of the request that was traced.
        parts: non-expert work, execution, storage time of the groups that have routes, and what lies outside the
            layers. They overlap.
    """

    configuration: Configuration
    predicted_seconds: float
    traced_seconds: float
    parts: tuple[Part, ...]

    @property
    def furthest(self) -> Part:
        """The part that the profile is furthest off with."""
        return max(self.parts, key=lambda part: abs(part.traced - part.predicted))


def traced(
    store: Store,
    tokens: NDArray[np.int32],
    configuration: Configuration,
    *,
    threads: int | None = None,
    read_bandwidth: float | None = None,
) -> Traced:
    """Measure a configuration anew.

    Raises:
        EStreamError: settings that the store can't be run with, or storage that fails.
    """
    settings = configuration._asdict()
    with PrefillEngine.open(store, **settings, threads=threads, read_bandwidth=read_bandwidth) as engine:
        engine.prefill(tokens)
        results = sorted((engine.prefill(tokens) for _ in range(REQUESTS)), key=lambda result: result.seconds)
    middle = results[REQUESTS // 2]
    return Traced(middle.seconds, Calibration.of(middle.trace))


def account(profile: Profile, model: str, configuration: Configuration, seen: Traced) -> Account:
    """What a model says of a configuration beside what was traced."""
    by, (depth, banks, size) = MODELS[model], configuration
    grid, times = profile.grid(size), seen.times
    predicted = float(by.times_of(grid, banks, depth)[-1]) + by.outside_ns(profile)
    needed = {(run.layer, run.group) for run in times.executions}
    reads_ns = sum(read.own_ns for read in times.loadings if (read.layer, read.group) in needed)
    elsewhere = by.outside_ns(profile) + (banks * grid.bank_ns if by.pays_banks else 0)
    parts = (
        ("non-expert work", float(grid.non_expert.sum()), sum(times.non_expert_ns)),
        ("experts", float(grid.runs.sum()), sum(run.ns for run in times.executions)),
        ("storage", float(grid.needed.reads[depth - 1].sum()) / depth, reads_ns),
        ("elsewhere", elsewhere, times.outside_ns),
    )
    seconds = tuple(Part(name, expected / 1e9, found / 1e9) for name, expected, found in parts)
    return Account(configuration, predicted / 1e9, seen.seconds, seconds)
