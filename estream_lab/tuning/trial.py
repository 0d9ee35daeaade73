"""A trial of the configuration model at one declared bandwidth: a profile, two like sweeps in turn, and the regrets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.machine import available_cpus
from estream_lab.streaming import Store
from estream_lab.tuning.calibrate import calibrate
from estream_lab.tuning.configure import MODELS
from estream_lab.tuning.gates import is_miss
from estream_lab.tuning.grids import QUEUE_DEPTHS, configurations, group_sizes
from estream_lab.tuning.misses import Account, account, traced
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.profile_file import load_profile, save_profile
from estream_lab.tuning.regret import Regret, noise_floor, regrets
from estream_lab.tuning.samples_file import SweepSample, open_samples
from estream_lab.tuning.sweep import subject, sweep

FEW = 25
"""Configurations that even a quick trial measures all of."""


@dataclass(frozen=True)
class Plan:
    """What every trial of a run has in common.

    Attributes:
        store, tokens, prompt: what runs: tokens are (T,), and ``prompt`` says what they are.
        sizes: group sizes. profile_rounds: of the profile. rounds: of each of the two sweeps.
        threads: of the kernels, every processor by default.
    """

    store: Store
    tokens: NDArray[np.int32]
    prompt: str
    sizes: tuple[int, ...]
    profile_rounds: int
    rounds: int
    threads: int | None = None

    @property
    def samples(self) -> int:
        """Engines that a trial opens; each runs two requests."""
        experts = self.store.spec.experts
        pairs = sum(depth <= -(-experts // size) for size in self.sizes for depth in QUEUE_DEPTHS)
        return self.profile_rounds * pairs + 2 * self.rounds * len(configurations(experts, self.sizes))


@dataclass(frozen=True)
class Miss:
    """A choice that costs more than it may: by which model, and it and the fastest taken apart."""

    model: str
    chosen: Account
    fastest: Account


@dataclass(frozen=True)
class Trial:
    """What came out.

    Attributes:
        read_bandwidth: declared, bytes/s. profile, samples: that were measured; even rounds are of one sweep, odd ones
            of the other.
        regrets: of every model at every budget. floors: noise floors by budget.
        misses: what wants an explanation.
    """

    read_bandwidth: float
    profile: Profile
    samples: tuple[SweepSample, ...]
    regrets: tuple[Regret, ...]
    floors: dict[str, float]
    misses: tuple[Miss, ...]


def trial(plan: Plan, read_bandwidth: float, folder: Path, *, progress: bool = False) -> Trial:
    """Measure what ``folder`` doesn't have yet, then hold choices against it.

    Raises:
        EStreamError: settings that the store can't be run with, storage that fails, or files of another plan.
    """
    how: dict[str, Any] = {"threads": plan.threads, "read_bandwidth": read_bandwidth}
    profile = _profile(plan, read_bandwidth, folder / f"profile-{read_bandwidth:.0f}.json", progress)
    grid = configurations(plan.store.spec.experts, plan.sizes)
    told = subject(
        plan.store, plan.tokens, grid, prompt=plan.prompt, threads=plan.threads, read_bandwidth=read_bandwidth
    )
    with open_samples(folder / f"sweep-{read_bandwidth:.0f}.jsonl", told) as file:
        samples = tuple(sweep(plan.store, plan.tokens, file, grid, 2 * plan.rounds, **how, progress=progress))
    found = tuple(each for model in MODELS for each in regrets(profile, samples, model))
    floors = noise_floor(profile, samples)
    assert floors is not None, "there are two rounds at least"
    missed = [each for each in found if is_miss(each, floors[each.budget])]
    pairs = dict.fromkeys((each.model, each.chosen, each.fastest) for each in missed)  # budgets may miss alike
    seen = {
        configuration: traced(plan.store, plan.tokens, configuration, **how)
        for configuration in dict.fromkeys(one for _, *pair in pairs for one in pair)
    }
    misses = tuple(Miss(model, *(account(profile, model, one, seen[one]) for one in pair)) for model, *pair in pairs)
    return Trial(read_bandwidth, profile, samples, found, floors, misses)


def _profile(plan: Plan, read_bandwidth: float, path: Path, progress: bool) -> Profile:
    """The profile that ``path`` keeps, else one that is measured and kept there."""
    if not path.exists():
        profile = calibrate(
            plan.store, plan.tokens, prompt=plan.prompt, sizes=plan.sizes, rounds=plan.profile_rounds,
            threads=plan.threads, read_bandwidth=read_bandwidth, progress=progress,
        )  # fmt: skip
        save_profile(profile, path)
        return profile
    profile = load_profile(path, plan.store)
    mine = (plan.prompt, len(plan.tokens), plan.threads or available_cpus(), plan.sizes)
    origin = profile.origin
    if (origin.prompt, origin.tokens, origin.threads, profile.group_sizes) != mine:
        raise EStreamError(f"{path} is the profile of another prompt, threads or group sizes: give another --folder")
    return profile


def quick_sizes(experts: int) -> tuple[int, ...]:
    """Group sizes of a quick trial: those of the grid without the smallest, where that has many configurations."""
    sizes = group_sizes(experts)
    return sizes if len(configurations(experts)) <= FEW else sizes[1:]
