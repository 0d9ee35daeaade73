"""EStream and its rivals on one contest: who takes how long, in how much memory, reading and computing how much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from estream_lab.errors import EStreamError
from estream_lab.experts.schedule import POLICIES
from estream_lab.simulate.rivals import (
    ChunkPadding,
    Contest,
    Contestant,
    Contexts,
    EStream,
    HottestFirst,
    NpuMoe,
    OnDemand,
    Outcome,
    Refused,
    Resident,
    WholeLayers,
    enter,
)
from estream_lab.simulate.soc import provenance
from estream_lab.trace import Provenance
from estream_lab.tuning.plans import Plan, plans_of

Options = Mapping[type[Contestant], Mapping[str, Any]]
"""By contestant, its options that aren't to have their defaults."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """What each contestant came to.

    Attributes:
        contest: what they all ran. plans: EStream's configuration by the max-plus model, and by the roofline.
        entries: one for each contestant, in a fixed order.
    """

    contest: Contest
    plans: tuple[Plan, Plan]
    entries: tuple[Outcome | Refused, ...]

    @property
    def outcomes(self) -> list[Outcome]:
        """Of those who ran."""
        return [entry for entry in self.entries if isinstance(entry, Outcome)]

    def named(self, *names: str) -> dict[str, Outcome]:
        """Outcomes by contestant, in this order.

        Raises:
            EStreamError: one that didn't run.
        """
        known = {outcome.contestant: outcome for outcome in self.outcomes}
        if absent := [name for name in names if name not in known]:
            raise EStreamError(f"'{absent[0]}' didn't run: choose of {', '.join(known) or 'nobody'}")
        return {name: known[name] for name in names}

    @property
    def refused(self) -> list[Refused]:
        """Those who didn't."""
        return [entry for entry in self.entries if isinstance(entry, Refused)]

    @property
    def provenance(self) -> Provenance:
        """For figures, of all entries together: a profile that was fitted to one group size doesn't cover them all."""
        facts = provenance(self.contest.device, self.contest.workload, 1)
        del facts["group_size"]
        return {**facts, "note": f"routes {facts['routes']}"}

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        contest = self.contest
        return {
            **self.provenance,
            "scope": contest.device.scope,
            "budget_bytes": contest.budget_bytes,
            "expert_bytes": contest.workload.model.expert_bytes,
            "needed_bytes": contest.needed_bytes,
            "store_bytes": contest.store_bytes,
            "device_assumed": contest.device.assumed,
            "plans": [plan.to_json() for plan in self.plans],
            "contestants": [entry.to_json() for entry in self.entries],
        }


def compare(contest: Contest, *, options: Options | None = None, over_budget: bool = False) -> Comparison:
    """Run all contestants.

    EStream's configuration is the max-plus model's for the early schedule; its other schedules, and the contestants
    that differ from it in one thing, have the same one.

    Args:
        options: of contestants. over_budget: run those over the budget all the same; their outcomes say so.

    Raises:
        EStreamError: an option that means nothing.
    """
    plans = plans_of(contest)
    entered = contestants(*plans, options or {})
    return Comparison(contest, plans, tuple(enter(each, contest, over_budget=over_budget) for each in entered))


def contestants(maxplus: Plan, roofline: Plan, options: Options) -> list[Contestant]:
    """All of them, as the planners configure them.

    Raises:
        EStreamError: options of nobody here, or that a contestant hasn't.
    """
    plan = maxplus.settings
    entered: list[Contestant] = [
        *(EStream(replace(plan, schedule=name)) for name in reversed(POLICIES)),
        EStream(replace(plan, carry_over=True)),
        EStream(roofline.settings, roofline.planner),
    ]
    others: tuple[tuple[type[Contestant], dict[str, Any]], ...] = (
        (HottestFirst, {"settings": plan}),
        (ChunkPadding, {"settings": plan}),
        (OnDemand, {}),
        (Contexts, {}),
        (WholeLayers, {}),
        (NpuMoe, {}),
        (Resident, {}),
    )
    for maker, given in options.items():
        known = {field.name for field in fields(maker)} if maker in dict(others) else set()  # type: ignore[arg-type]
        if strange := sorted(set(given) - known):
            raise EStreamError(f"{maker.__name__} has no option '{strange[0]}' here: leave it out")
    return entered + [maker(**given, **options.get(maker, {})) for maker, given in others]
