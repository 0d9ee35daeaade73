"""A trial of the configuration model at one declared bandwidth: a profile, two like sweeps in turn, and the regrets."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.machine import available_cpus
from estream_lab.streaming import Store
from estream_lab.tuning.calibrate import calibrate
from estream_lab.tuning.configure import peak_depth
from estream_lab.tuning.gates import is_miss
from estream_lab.tuning.grids import QUEUE_DEPTHS, Configuration, configurations, group_sizes
from estream_lab.tuning.misses import Account, Traced, account, traced
from estream_lab.tuning.models import MODELS
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
    """A choice that costs more than it may.

    Attributes:
        model: that chose. chosen, fastest: taken apart.
        held_to_depth: Q0, where the model's rule for the queue depth left out that of the fastest; else None.
    """

    model: str
    chosen: Account
    fastest: Account
    held_to_depth: int | None

    @property
    def regret_again(self) -> float:
        """The regret of the requests that were traced: far from that of the sweep, it was noise."""
        return self.chosen.traced_seconds / self.fastest.traced_seconds - 1


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
        kept = sweep(plan.store, plan.tokens, file, grid, 2 * plan.rounds, **how, progress=progress)
    samples = tuple(sample for sample in kept if sample.round < 2 * plan.rounds)  # a longer run may have left more
    found = tuple(each for model in MODELS for each in regrets(profile, samples, model))
    floors = noise_floor(profile, samples)
    assert floors is not None, "there are two rounds at least"
    missed = [each for each in found if is_miss(each, floors[each.budget])]
    return Trial(read_bandwidth, profile, samples, found, floors, _misses(plan, profile, missed, read_bandwidth))


def _misses(plan: Plan, profile: Profile, missed: list[Regret], read_bandwidth: float) -> tuple[Miss, ...]:
    """Each pair of a choice and the fastest once, whatever budgets it misses at; each configuration is traced once."""

    @cache
    def seen(configuration: Configuration) -> Traced:
        return traced(plan.store, plan.tokens, configuration, threads=plan.threads, read_bandwidth=read_bandwidth)

    return tuple(
        Miss(
            model,
            account(profile, model, chosen, seen(chosen)),
            account(profile, model, fastest, seen(fastest)),
            _held(profile, model, fastest),
        )
        for model, chosen, fastest in dict.fromkeys((each.model, each.chosen, each.fastest) for each in missed)
    )


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
    mine = (plan.prompt, len(plan.tokens), plan.threads or available_cpus(), plan.sizes, plan.profile_rounds)
    origin = profile.origin
    if (origin.prompt, origin.tokens, origin.threads, profile.group_sizes, profile.rounds) != mine:
        raise EStreamError(
            f"{path} is the profile of another prompt, threads, group sizes or rounds: give another --folder"
        )
    return profile


def _held(profile: Profile, model: str, fastest: Configuration) -> int | None:
    """Q0, if the model takes no other depth and would have run ``fastest`` at another."""
    depth = peak_depth(profile)
    return depth if not MODELS[model].searches_depth and fastest.queue_depth != min(depth, fastest.banks) else None


def quick_sizes(experts: int) -> tuple[int, ...]:
    """Group sizes of a quick trial: those of the grid without the smallest, where that has many configurations."""
    sizes = group_sizes(experts)
    return sizes if len(configurations(experts)) <= FEW else sizes[1:]
