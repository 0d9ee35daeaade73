"""Regret: by how much a chosen configuration is slower than the best that a budget has, all of them known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from estream_lab.errors import EStreamError
from estream_lab.tuning.configure import select
from estream_lab.tuning.grids import Configuration
from estream_lab.tuning.models import LITERAL, MODELS, Model, model_of
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.samples_file import SweepSample
from estream_lab.tuning.sweep import undisturbed_seconds

FEWEST = 5  # configurations that the low budget leaves to choose from


@dataclass(frozen=True)
class Budget:
    """A budget and what of a sweep fits it.

    Attributes:
        name: low, medium or high. bytes: M_max. feasible: the configurations with M_other + B · G · W_e within it.
    """

    name: str
    bytes: int
    feasible: tuple[Configuration, ...]


@dataclass(frozen=True)
class Regret:
    """One choice held against a sweep.

    Attributes:
        model: that chose, of `models.MODELS` or another. budget: its name. budget_bytes: M_max.
        feasible: how many configurations fit.
        chosen, fastest: (Q, B, G). chosen_seconds, fastest_seconds: of the sweep, simulated, or measured and of the
            samples that nothing disturbed. regret: their ratio - 1.
        peak_rss_bytes: the most that the chosen one took in the sweep.
    """

    model: str
    budget: str
    budget_bytes: int
    feasible: int
    chosen: Configuration
    fastest: Configuration
    chosen_seconds: float
    fastest_seconds: float
    regret: float
    peak_rss_bytes: int

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        plain = asdict(self)
        for name in ("chosen", "fastest"):
            plain[name] = getattr(self, name)._asdict()
        return plain


def budgets(configurations: Sequence[Configuration], slot_bytes: int, other_bytes: int) -> tuple[Budget, ...]:
    """The low, the medium and the high budget, from bytes alone, before anything is measured.

    The smallest that leaves five configurations (or all, where there are fewer), the smallest that leaves all, and the
    one half way between, rounded down.

    Raises:
        EStreamError: no configurations.
    """
    if not configurations:
        raise EStreamError("a grid without configurations has no budgets: give one")
    needs = _needs(configurations, slot_bytes, other_bytes)
    sizes = sorted(needs.values())
    low, high = sizes[min(FEWEST, len(sizes)) - 1], sizes[-1]
    return tuple(
        _budget(name, size, needs) for name, size in (("low", low), ("medium", (low + high) // 2), ("high", high))
    )


def every_budget(configurations: Sequence[Configuration], slot_bytes: int, other_bytes: int) -> tuple[Budget, ...]:
    """All budgets that make a difference: from each on, another configuration fits. They are named by their bytes."""
    needs = _needs(configurations, slot_bytes, other_bytes)
    return tuple(_budget(str(size), size, needs) for size in sorted(set(needs.values())))


def _needs(configurations: Sequence[Configuration], slot_bytes: int, other_bytes: int) -> dict[Configuration, int]:
    return {each: other_bytes + each.banks * each.group_size * slot_bytes for each in configurations}


def _budget(name: str, size: int, needs: Mapping[Configuration, int]) -> Budget:
    return Budget(name, size, tuple(each for each, need in needs.items() if need <= size))


def regrets(profile: Profile, samples: Sequence[SweepSample], model: str = "literal") -> tuple[Regret, ...]:
    """What `configure.select` chooses by a model at the three budgets, held against a sweep.

    Raises:
        EStreamError: a choice that isn't in the sweep.
    """
    return regrets_of(profile, undisturbed_seconds(samples), peaks(samples), model)


def peaks(samples: Sequence[SweepSample]) -> dict[Configuration, int]:
    """The most bytes that every configuration was seen to take, of a measured sweep."""
    found: dict[Configuration, int] = {}
    for sample in samples:
        found[sample.configuration] = max(sample.peak_rss_bytes, found.get(sample.configuration, 0))
    return found


def regrets_of(
    profile: Profile,
    seconds: Mapping[Configuration, float],
    peak_bytes: Mapping[Configuration, int],
    model: str | Model = LITERAL,
) -> tuple[Regret, ...]:
    """The same against what every configuration took, in seconds and in bytes.

    Raises:
        EStreamError: a choice that isn't among them.
    """
    three = budgets(tuple(seconds), profile.slot_bytes, profile.other_bytes)
    return tuple(regret_at(budget, profile, seconds, peak_bytes, model) for budget in three)


def regret_at(
    budget: Budget,
    profile: Profile,
    seconds: Mapping[Configuration, float],
    peak_bytes: Mapping[Configuration, int],
    model: str | Model = LITERAL,
) -> Regret:
    """The same at one budget.

    Raises:
        EStreamError: a choice that isn't among them.
    """
    weighed = select(profile, budget.bytes, model).chosen
    chosen = Configuration(weighed.queue_depth, weighed.banks, weighed.group_size)
    if chosen not in budget.feasible:
        raise EStreamError(
            f"{chosen.told} was chosen and isn't in the sweep: sweep the group sizes and queue depths of the profile"
        )
    fastest = fastest_of(seconds, budget.feasible)
    return Regret(
        model=model_of(model).name,
        budget=budget.name,
        budget_bytes=budget.bytes,
        feasible=len(budget.feasible),
        chosen=chosen,
        fastest=fastest,
        chosen_seconds=seconds[chosen],
        fastest_seconds=seconds[fastest],
        regret=seconds[chosen] / seconds[fastest] - 1,
        peak_rss_bytes=peak_bytes[chosen],
    )


def regret_curves(
    profile: Profile, seconds: Mapping[Configuration, float], peak_bytes: Mapping[Configuration, int]
) -> dict[str, list[tuple[int, float]]]:
    """By model, (M_max in bytes, regret) at every budget that makes a difference.

    Args:
        profile: that is chosen by. seconds, peak_bytes: of a sweep.

    Raises:
        EStreamError: a choice that isn't in the sweep.
    """
    every = every_budget(tuple(seconds), profile.slot_bytes, profile.other_bytes)
    return {
        model: [(each.bytes, regret_at(each, profile, seconds, peak_bytes, model).regret) for each in every]
        for model in MODELS
    }


def noise_floor(profile: Profile, samples: Sequence[SweepSample]) -> dict[str, float] | None:
    """The regret that a sweep has against another like it, by budget: even and odd rounds choose for each other.

    The larger of the two; None for a single round.
    """
    halves = [undisturbed_seconds([each for each in samples if each.round % 2 == parity]) for parity in (0, 1)]
    both = tuple(each for each in halves[0] if each in halves[1])
    if not both:
        return None
    floors = {}
    for budget in budgets(both, profile.slot_bytes, profile.other_bytes):
        picks = [fastest_of(half, budget.feasible) for half in halves]
        best = [half[pick] for half, pick in zip(halves, picks, strict=True)]
        floors[budget.name] = max(halves[1][picks[0]] / best[1], halves[0][picks[1]] / best[0]) - 1
    return floors


def fastest_of(seconds: Mapping[Configuration, float], feasible: Sequence[Configuration]) -> Configuration:
    """The fastest; of equally fast ones that of fewer banks, then smaller arena, then smaller group, as everywhere."""
    return min(feasible, key=lambda c: (seconds[c], c.banks, c.banks * c.group_size, c.group_size))
