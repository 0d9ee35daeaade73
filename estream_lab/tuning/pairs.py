"""The configurator on simulated devices: four models at three budgets, every choice held against an exhaustive sweep.

Everything is fixed before anything runs: models, tokens, budgets (`regret.budgets`), grids (`grids.configurations`) and
seeds. A choice is made from a profile; the sweep that it is held against is the simulator's, without noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from estream_lab.simulate.device import Device
from estream_lab.simulate.models import MODELS as SHAPES
from estream_lab.simulate.published import published
from estream_lab.simulate.variants import drawn_device
from estream_lab.simulate.workload import Workload
from estream_lab.tuning.grids import Configuration, configurations
from estream_lab.tuning.maxplus import pipe_times
from estream_lab.tuning.models import LITERAL, SHARED, Model
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.refined import shared_times
from estream_lab.tuning.regret import Regret, regrets_of
from estream_lab.tuning.simulated import simulated_profile, simulated_sweep, with_noise

FAMILIES = ("lfm2", "olmoe", "deepseek", "qwen3")
"""The paper's four, with 25, 53, 53 and 53 configurations."""

TOKENS = 1024
"""Of the paper's sweeps."""

DEVELOPMENT_SEEDS = range(20)
"""Of devices and noise that the models may be changed by."""

REPORTED_SEEDS = range(1000, 1200)
"""Of those that they may not, and that figures are given of."""

TERMS = (
    LITERAL,
    Model("literal, banks cost", pipe_times, searches_depth=False, pays_banks=True),
    Model("literal, depth searched", pipe_times, searches_depth=True, pays_banks=False),
    Model("literal, reads share", shared_times, searches_depth=False, pays_banks=False),
    SHARED,
)
"""The literal model, with each of the finer one's terms alone, and with all of them: which term a miss is due to."""

Swept = Callable[[int], None]
"""Told of every configuration that was simulated, 1."""


def gate() -> float:
    """The paper's worst regret, which ours are held to.

    Raises:
        EStreamError: no published figures, as in an installation without the checkout.
    """
    return published()["regret_worst"].value / 100


@dataclass(frozen=True)
class Case:
    """A model on a device.

    Attributes:
        device, workload: what was simulated. profile: of it, without noise.
        seconds, peak_bytes: of a request at every configuration of the grid.
    """

    device: Device
    workload: Workload
    profile: Profile
    seconds: dict[Configuration, float]
    peak_bytes: dict[Configuration, int]

    def regrets(self, model: str | Model, noise_seed: int | None = None) -> tuple[Regret, ...]:
        """Of the choices by a model at the three budgets, from the profile, or as noise from a seed distorts it.

        Raises:
            EStreamError: no such model.
        """
        profile = self.profile if noise_seed is None else with_noise(self.profile, noise_seed)
        return regrets_of(profile, self.seconds, self.peak_bytes, model)


@dataclass(frozen=True)
class Summary:
    """Choices held against sweeps.

    Attributes:
        devices: the phone, or what else. noise: whether profiles had some. model: that chose.
        choices: how many. exact: that were the fastest of what fits, or as fast. within_gate: with a regret of at most
            `gate()`. within_budget: whose peak is no more than their budget, in bytes.
        median_regret, worst_regret: of all.
    """

    devices: str
    noise: bool
    model: str
    choices: int
    exact: int
    within_gate: int
    within_budget: int
    median_regret: float
    worst_regret: float

    @classmethod
    def of(cls, devices: str, noise: bool, regrets: Sequence[Regret]) -> Summary:
        """Of regrets of one model, at least one."""
        values, most = [each.regret for each in regrets], gate()
        return cls(
            devices=devices,
            noise=noise,
            model=regrets[0].model,
            choices=len(values),
            exact=sum(value == 0 for value in values),
            within_gate=sum(value <= most for value in values),
            within_budget=sum(each.peak_rss_bytes <= each.budget_bytes for each in regrets),
            median_regret=median(values),
            worst_regret=max(values),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def case_of(device: Device, family: str, *, seed: int = 0, swept: Swept | None = None) -> Case:
    """Profile and sweep a public model with synthetic routes from ``seed``, as `models.MODELS` names it."""
    workload = Workload.synthetic(SHAPES[family], TOKENS, seed=seed)
    seconds, peaks = simulated_sweep(device, workload, told=swept)
    return Case(device, workload, simulated_profile(device, workload), seconds, peaks)


def twelve(device: Device, *, swept: Swept | None = None) -> tuple[Case, ...]:
    """The four models on one device; with three budgets each they make twelve pairs."""
    return tuple(case_of(device, family, swept=swept) for family in FAMILIES)


def drawn_cases(base: Device, seeds: Iterable[int], *, swept: Swept | None = None) -> Iterator[tuple[int, Case]]:
    """For each seed a device around ``base`` and routes drawn from it; the four models in turn."""
    for seed in seeds:
        family = FAMILIES[seed % len(FAMILIES)]
        yield seed, case_of(drawn_device(base, seed), family, seed=seed, swept=swept)


def sweep_size(families: Iterable[str] = FAMILIES) -> int:
    """How many configurations the sweeps of these models have."""
    return sum(len(configurations(SHAPES[family].experts)) for family in families)


def summaries(
    devices: str, cases: Sequence[tuple[Sequence[int], Case]], *, told: Swept | None = None
) -> tuple[Summary, ...]:
    """Of `TERMS` without noise, then of the literal and the finer model with it.

    Args:
        devices: what `Summary` calls them. cases: each with the seeds of its noise. told: of every profile that was
            chosen by, 1.
    """
    without: dict[str, list[Regret]] = {model.name: [] for model in TERMS}
    noisy: dict[str, list[Regret]] = {model.name: [] for model in (LITERAL, SHARED)}
    for seeds, case in cases:
        for model in TERMS:
            without[model.name] += case.regrets(model)
        for seed in seeds:
            for model in (LITERAL, SHARED):
                noisy[model.name] += case.regrets(model, seed)
            if told is not None:
                told(1)
    return tuple(
        Summary.of(devices, noise, regrets)
        for noise, found in ((False, without), (True, noisy))
        for regrets in found.values()
        if regrets
    )
