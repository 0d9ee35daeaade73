"""The paper's figure of configurations: every (G, Q, B) of a model on a simulated device, and what is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from estream_lab.simulate.device import Device
from estream_lab.simulate.models import MODELS
from estream_lab.simulate.soc import other_bytes
from estream_lab.simulate.workload import Workload
from estream_lab.tuning.devices import device_candidates, device_depth
from estream_lab.tuning.grids import Configuration
from estream_lab.tuning.maxplus import best
from estream_lab.tuning.pairs import FAMILIES, TOKENS
from estream_lab.tuning.paper.marks import FITTED, SIMULATED, Mark, published_mark, simulated_kind
from estream_lab.tuning.regret import Budget, budgets, fastest_of
from estream_lab.tuning.simulated import simulated_sweep

FULL, FAST = FAMILIES, FAMILIES[:2]
LATENCY, MEMORY, REGRET, SEARCH = "latency", "peak memory", "regret", "gain of searching G"
DEEPER = "gain of the second queue place"
FIXED_GROUP = 8
"""What the paper compares its search over G with."""

PUBLISHED_POINTS = {
    "olmoe_g8q2b2": Configuration(2, 2, 8),
    "olmoe_g8q2b3": Configuration(2, 3, 8),
    "olmoe_g8q2b8": Configuration(2, 8, 8),
}
PUBLISHED_SEARCHES = {("deepseek", "medium"): "search_g_deepseek", ("qwen3", "high"): "search_g_qwen3"}


@dataclass(frozen=True)
class Point:
    """A configuration as simulated."""

    configuration: Configuration
    seconds: float
    peak_bytes: int
    kind: str


@dataclass(frozen=True)
class Choice:
    """What the literal recurrence chooses for a budget: one of the sweep's points, beside the fastest that fits."""

    budget: Budget
    chosen: Point
    fastest: Point
    fastest_of_fixed_group: Point | None

    @property
    def regret(self) -> float:
        """By what part the chosen one is slower."""
        return self.chosen.seconds / self.fastest.seconds - 1


@dataclass(frozen=True)
class Swept:
    """A model's sweep: its title, every point, and the choices for the low, the medium and the high budget."""

    title: str
    points: tuple[Point, ...]
    choices: tuple[Choice, ...]

    def at(self, configuration: Configuration) -> Point:
        """The point of a configuration."""
        return next(point for point in self.points if point.configuration == configuration)


def sweep_device(device: Device, names: Sequence[str]) -> dict[str, Swept]:
    """Every configuration of each model of `MODELS` at 1,024 tokens, early, without noise.

    Budgets leave five configurations, or half way more memory, or all (`regret.budgets`): those of the paper aren't
    printed.
    """
    return {name: _swept(device, Workload.synthetic(MODELS[name], TOKENS)) for name in names}


def _swept(device: Device, workload: Workload) -> Swept:
    model, (seconds, peaks) = workload.model, simulated_sweep(device, workload)
    points = {
        each: Point(each, seconds[each], peaks[each], simulated_kind(device, workload, each.group_size))
        for each in seconds
    }
    asked = budgets(tuple(points), model.expert_bytes, other_bytes(device, workload))
    return Swept(
        model.title, tuple(points.values()), tuple(_choice(device, workload, points, budget) for budget in asked)
    )


def _choice(device: Device, workload: Workload, points: Mapping[Configuration, Point], budget: Budget) -> Choice:
    picked = best(device_candidates(device, workload, budget.bytes), device_depth(device))
    chosen = points[Configuration(picked.queue_depth, picked.banks, picked.group_size)]
    seconds = {each: point.seconds for each, point in points.items()}
    fixed = [each for each in budget.feasible if each.group_size == FIXED_GROUP]
    return Choice(
        budget,
        chosen,
        fastest=points[fastest_of(seconds, budget.feasible)],
        fastest_of_fixed_group=points[fastest_of(seconds, fixed)] if fixed else None,
    )


def marks(swept: Mapping[str, Swept]) -> list[Mark]:
    """Every point's latency and memory, every choice's regret and gain over the best of G=8, and what is published."""
    found = []
    for name, sweep in swept.items():
        for point in sweep.points:
            of = f"{sweep.title}, {point.configuration.told}"
            found.append(Mark(of, LATENCY, point.seconds, "s", point.kind))
            found.append(Mark(of, MEMORY, point.peak_bytes, "bytes", point.kind))
        for choice in sweep.choices:
            found += _choice_marks(name, sweep.title, choice)
        if name == "olmoe":
            found += _olmoe_marks(sweep)
    return found


def _olmoe_marks(sweep: Swept) -> list[Mark]:
    """The published points, and what the second queue place gains at G=8 B=3."""
    lone, two = (sweep.at(Configuration(depth, 3, FIXED_GROUP)) for depth in (1, 2))
    of = f"{sweep.title}, G={FIXED_GROUP} B=3"
    return [
        *(published_mark(id, f"{sweep.title}, {each.told}", LATENCY) for id, each in PUBLISHED_POINTS.items()),
        Mark(of, DEEPER, 100 * (1 - two.seconds / lone.seconds), "%", two.kind),
        published_mark("olmoe_q1_to_q2", of, DEEPER),
    ]


def _choice_marks(name: str, title: str, choice: Choice) -> list[Mark]:
    of, note = f"{title}, {choice.budget.name} budget", choice.chosen.configuration.told
    found = [Mark(of, REGRET, 100 * choice.regret, "%", choice.chosen.kind, note)]
    if (fixed := choice.fastest_of_fixed_group) is not None:
        gain = 100 * (1 - choice.fastest.seconds / fixed.seconds)
        found.append(Mark(of, SEARCH, gain, "%", choice.fastest.kind, choice.fastest.configuration.told))
    if (id := PUBLISHED_SEARCHES.get((name, choice.budget.name))) is not None:
        found.append(published_mark(id, of, SEARCH))
    return found


def beside_published(found: Sequence[Mark]) -> list[Mark]:
    """Of marks the published latencies and what the second queue place gains, and ours of the same."""
    theirs = {mark.of for mark in found if mark.quantity in (LATENCY, DEEPER) and mark.kind not in (SIMULATED, FITTED)}
    return [mark for mark in found if mark.quantity in (LATENCY, DEEPER) and mark.of in theirs]


def summary(swept: Mapping[str, Swept]) -> list[Mark]:
    """Configurations and exact choices by number, median and worst regret, beside what the paper has of four models."""
    choices = [choice for sweep in swept.values() for choice in sweep.choices]
    regrets = [100 * choice.regret for choice in choices]
    of, kind, count = f"{len(swept)} models", SIMULATED, sum(len(sweep.points) for sweep in swept.values())
    exact = sum(choice.chosen == choice.fastest for choice in choices)
    paper = "the paper, 4 models"
    return [
        Mark(of, "configurations", count, "count", kind),
        Mark(of, "exact choices", exact, f"of {len(choices)}", kind),
        Mark(of, "median regret", median(regrets), "%", kind),
        Mark(of, "worst regret", max(regrets), "%", kind),
        published_mark("configurations_total", paper, "configurations"),
        published_mark("pairs_exact", paper, "exact choices"),
        published_mark("regret_median", paper, "median regret"),
        published_mark("regret_worst", paper, "worst regret"),
    ]
