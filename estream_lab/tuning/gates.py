"""What the configuration model is held to where choices and sweeps are measured, and whether it is met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from estream_lab.errors import EStreamError
from estream_lab.tuning.regret import Regret

MEDIAN_ABOVE_FLOOR = 0.02
"""By so much the median regret may be above the noise floor."""

WORST = 0.10
"""The most that any regret may be."""


@dataclass(frozen=True)
class Verdict:
    """The regrets of one model at several budgets and bandwidths.

    Attributes:
        model: of `models.MODELS`. choices: how many. exact: those whose choice was the fastest.
        median, worst: of the regrets. noise_floor: the median of what two like sweeps have against each other.
        median_within, worst_within: the gates.
    """

    model: str
    choices: int
    exact: int
    median: float
    worst: float
    noise_floor: float
    median_within: bool
    worst_within: bool

    @property
    def within(self) -> bool:
        """Both gates."""
        return self.median_within and self.worst_within


def verdict(model: str, regrets: Sequence[Regret], floors: Sequence[float]) -> Verdict:
    """Hold a model to the gates.

    Args:
        model: whose choices count. regrets: of any models. floors: noise floors, of the same budgets and bandwidths.

    Raises:
        EStreamError: no choice of this model, or no noise floor.
    """
    mine = [each.regret for each in regrets if each.model == model]
    if not mine or not floors:
        raise EStreamError(f"there is nothing to judge model '{model}' by: give its regrets, and two rounds of a sweep")
    floor, middle, worst = median(floors), median(mine), max(mine)
    return Verdict(
        model=model,
        choices=len(mine),
        exact=sum(each.chosen == each.fastest for each in regrets if each.model == model),
        median=middle,
        worst=worst,
        noise_floor=floor,
        median_within=middle <= floor + MEDIAN_ABOVE_FLOOR,
        worst_within=worst <= WORST,
    )


def is_miss(regret: Regret, floor: float) -> bool:
    """Whether one choice is beyond what the median or the worst may be, so that it wants an explanation."""
    return regret.regret > min(floor + MEDIAN_ABOVE_FLOOR, WORST)
