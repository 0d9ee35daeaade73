"""The configuration that a memory budget is best spent on, and why (paper section 6): Q0, B_max, then G and B."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from estream_lab.engine.memory import most_banks
from estream_lab.errors import EStreamError
from estream_lab.tuning.maxplus import Candidate, Choice, Times, best
from estream_lab.tuning.models import LITERAL, Model, model_of
from estream_lab.tuning.profile import Profile

PEAK_SHARE = 0.95


Binds = Literal["memory", "groups", "service times"]


@dataclass(frozen=True)
class Weighed:
    """One group size at a budget. Where no bank fits, ``banks`` and ``bank_limit`` are 0 and there is no time.

    Attributes:
        group_size: g. bank_limit: B_max. groups: ceil(E / g). banks: B*.
        queue_depth: min(Q0, B*), or the best where it is searched.
        predicted_seconds: of a request. seconds_by_banks: with 1, 2, … ceil(E / g) banks, whether they fit or not.
        arena_bytes: B* · g · W_e. memory_bytes: with M_other. least_bytes: the smallest budget for this g.
        binds: what keeps more banks from being of use: memory, that the layer has no more groups, or service times,
            which leave nothing to gain.
        noise_seconds: by how much predictions from single requests scatter (standard deviation); None for a lone one.
    """

    group_size: int
    bank_limit: int
    groups: int
    banks: int
    queue_depth: int
    predicted_seconds: float | None
    seconds_by_banks: tuple[float, ...]
    arena_bytes: int
    memory_bytes: int
    least_bytes: int
    binds: Binds
    noise_seconds: float | None


@dataclass(frozen=True)
class Selection:
    """What was chosen for a budget.

    Attributes:
        chosen: one of ``candidates``. runner_up: the best of the other group sizes; None where none fits.
        budget_bytes: M_max. other_bytes: M_other. selection_seconds: what B_max, B* and G* took.
        candidates: every group size, ascending.
    """

    chosen: Weighed
    runner_up: Weighed | None
    budget_bytes: int
    other_bytes: int
    selection_seconds: float
    candidates: tuple[Weighed, ...]

    @property
    def margin_seconds(self) -> float | None:
        """By how much the runner-up is predicted to be slower."""
        if self.runner_up is None or self.runner_up.predicted_seconds is None:
            return None
        assert self.chosen.predicted_seconds is not None
        return self.runner_up.predicted_seconds - self.chosen.predicted_seconds

    @property
    def margin_noise_seconds(self) -> float | None:
        """The noise of that difference; None where the profile can't tell."""
        noises = [each.noise_seconds for each in (self.chosen, self.runner_up) if each is not None]
        known = [noise for noise in noises if noise is not None]
        return math.hypot(*known) if len(known) == len(noises) == 2 else None

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        chosen, margin, noise = self.chosen, self.margin_seconds, self.margin_noise_seconds
        return {
            "group_size": chosen.group_size,
            "queue_depth": chosen.queue_depth,
            "banks": chosen.banks,
            "predicted_seconds": chosen.predicted_seconds,
            "arena_bytes": chosen.arena_bytes,
            "other_bytes": self.other_bytes,
            "budget_bytes": self.budget_bytes,
            "selection_seconds": self.selection_seconds,
            "runner_up": self.runner_up.group_size if self.runner_up else None,
            "margin_seconds": margin,
            "margin_noise_seconds": noise,
            "margin_exceeds_noise": None if margin is None or noise is None else margin > noise,
            "candidates": [asdict(each) for each in self.candidates],
        }


def peak_depth(profile: Profile) -> int:
    """Q0: the smallest depth that reaches 95 % of the peak bandwidth of grouped reads at every group size."""
    speeds = np.array([[profile.bandwidth(g, q) for q in profile.queue_depths] for g in profile.group_sizes])
    enough = (speeds >= PEAK_SHARE * speeds.max(axis=1, keepdims=True)).all(axis=0)  # (depths,)
    # a deeper queue is the peak of its own group size, but none need be near the peak of all
    return profile.queue_depths[int(enough.argmax())] if enough.any() else profile.queue_depths[-1]


def bank_limit(profile: Profile, group_size: int, budget_bytes: int) -> int:
    """B_max(g) = min(ceil(E / g), floor((M_max - M_other) / (g · W_e))), in integer bytes, inclusive; 0 for none."""
    bank_bytes = group_size * profile.slot_bytes
    return max(0, most_banks(budget_bytes, profile.other_bytes, bank_bytes, profile.groups(group_size)))


def candidates(profile: Profile) -> tuple[Candidate, ...]:
    """Every group size with as many banks as its layers have groups: what selections start from."""
    return tuple(
        Candidate(size, size * profile.slot_bytes, profile.groups(size), profile.grid(size))
        for size in profile.group_sizes
    )


def select(profile: Profile, budget_bytes: int, model: str | Model = LITERAL) -> Selection:
    """Choose G, Q and B for a budget.

    Ties go to fewer banks, then the smaller arena, then the smaller group.

    Args:
        profile: of the store on this machine.
        budget_bytes: M_max, the most that the process may have resident, inclusive.
        model: one of `MODELS` by its name: literal, the paper's recurrence at Q0, or shared, in which reads share the
            storage, banks cost time, and the depth is searched; or another.

    Raises:
        EStreamError: no such model, or no group size fits; the sentence names the smallest budget that works.
    """
    by = model_of(model)
    depths = profile.queue_depths if by.searches_depth else (peak_depth(profile),)
    known = candidates(profile)
    by.times_of(known[0].grid, 1, 1)  # the kernel is loaded, or compiled, before anything is timed
    start = time.perf_counter()
    feasible = [
        Candidate(each.group_size, each.bank_bytes, limit, each.grid)
        for each in known
        if (limit := bank_limit(profile, each.group_size, budget_bytes))
    ]
    if not feasible:
        raise EStreamError(_refusal(profile, budget_bytes))
    choice = _best(feasible, depths, by.times_of)
    seconds = time.perf_counter() - start
    weighed = tuple(_weigh(profile, each, depths, budget_bytes, by) for each in known)
    chosen = next(each for each in weighed if each.group_size == choice.group_size)
    others = [each for each in feasible if each.group_size != choice.group_size]
    second = _best(others, depths, by.times_of).group_size if others else None
    runner_up = next((each for each in weighed if each.group_size == second), None)
    return Selection(chosen, runner_up, budget_bytes, profile.other_bytes, seconds, weighed)


def _best(candidates: Sequence[Candidate], depths: Sequence[int], times_of: Times) -> Choice:
    """The best at any of these depths; of equals that of the smallest."""
    choices = [best(candidates, depth, times_of) for depth in depths]
    return min(choices, key=lambda each: (each.pipe_ns, each.banks, each.arena_bytes, each.group_size))


def _refusal(profile: Profile, budget_bytes: int) -> str:
    smallest = min(profile.group_sizes)
    bank = smallest * profile.slot_bytes
    return (
        f"a memory budget of {budget_bytes} bytes is too small: {profile.other_bytes} lie outside the arena and a bank "
        f"of {smallest} experts takes {bank}, so the least that works is {profile.other_bytes + bank} bytes"
    )


def _weigh(profile: Profile, candidate: Candidate, depths: Sequence[int], budget_bytes: int, model: Model) -> Weighed:
    """All that there is to say about one group size."""
    size = candidate.group_size
    limit = bank_limit(profile, size, budget_bytes)
    by_depth = np.stack([model.times_of(candidate.grid, candidate.banks, depth) for depth in depths])  # (depths, banks)
    times = by_depth.min(axis=0)
    seconds = (times + model.outside_ns(profile)) / 1e9
    banks = int(times[:limit].argmin()) + 1 if limit else 0
    depth = depths[int(by_depth[:, banks - 1].argmin())]
    queue = min(depth, banks)
    arena = banks * candidate.bank_bytes
    return Weighed(
        group_size=size,
        bank_limit=limit,
        groups=candidate.banks,
        banks=banks,
        queue_depth=queue,
        predicted_seconds=float(seconds[banks - 1]) if banks else None,
        seconds_by_banks=tuple(map(float, seconds)),
        arena_bytes=arena,
        memory_bytes=profile.other_bytes + arena if banks else 0,
        least_bytes=profile.other_bytes + candidate.bank_bytes,
        binds=_binding(times.tolist(), banks),
        noise_seconds=_noise(profile, size, depth, banks, model) if banks else None,
    )


def _binding(times: Sequence[float], banks: int) -> Binds:
    """``times`` with 1, 2, … banks, of which ``banks`` are the best that fit."""
    if not banks or min(times) < times[banks - 1]:
        return "memory"
    return "groups" if banks == len(times) else "service times"


def _noise(profile: Profile, size: int, depth: int, banks: int, model: Model) -> float | None:
    """Of predictions in seconds, each from the samples of one request at the depth that is chosen."""
    queue = min(depth, banks)
    runs = profile.of_size(size)
    mine = [run for run in runs if run.queue_depth == min(queue, max(run.queue_depth for run in runs))]
    if len(mine) < 2:
        return None
    found = [model.times_of(profile.grid(size, runs=[run]), banks, depth)[-1] + run.outside_ns for run in mine]
    return float(np.std(found, ddof=1)) / 1e9
