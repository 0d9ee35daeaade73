"""Two planners on one simulated device: the max-plus recurrence, and the roofline that knows nothing of waiting."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from estream_lab.simulate.rivals import Contest
from estream_lab.simulate.soc import Settings, service_times_of, simulate
from estream_lab.tuning.devices import device_banks, device_candidates, device_depth, device_grid
from estream_lab.tuning.grids import group_sizes
from estream_lab.tuning.maxplus import Choice, best, pipe_times
from estream_lab.tuning.roofline import roofline_best, roofline_times


@dataclass(frozen=True)
class Plan:
    """What a planner chose for the early schedule.

    Attributes:
        planner: "max-plus" or "roofline". settings: G, B and Q.
        predicted_seconds: of the request, by the planner's own model; None where not even one bank fits the budget, and
            the smallest configuration stands in for a choice.
    """

    planner: str
    settings: Settings
    predicted_seconds: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


def plans_of(contest: Contest) -> tuple[Plan, Plan]:
    """Max-plus, then roofline; both choose from the same candidates, and break ties alike."""
    device, workload = contest.device, contest.workload
    candidates, depth = device_candidates(device, workload, contest.budget_bytes), device_depth(device)
    if not candidates:
        least = Settings(group_sizes(workload.model.experts)[0], 1, 1)
        return Plan("max-plus", least, None), Plan("roofline", least, None)
    return (
        _plan("max-plus", contest, best(candidates, depth)),
        _plan("roofline", contest, roofline_best(candidates, depth)),
    )


@dataclass(frozen=True)
class PlanCurves:
    """Request time in seconds with 1, 2, … banks of one group size, early and at the depth Q0.

    Attributes:
        group_size: G. fits: how many banks the budget has room for.
        maxplus, roofline: predicted. simulated: what the simulator makes of it.
    """

    group_size: int
    fits: int
    maxplus: tuple[float, ...]
    roofline: tuple[float, ...]
    simulated: tuple[float, ...]


def curves_of(contest: Contest, group_size: int) -> PlanCurves:
    """What both planners predict of every number of banks, whether they fit or not, and what the simulator finds.

    Raises:
        EStreamError: a group size that the model has not.
    """
    device, workload, depth = contest.device, contest.workload, device_depth(contest.device)
    grid = device_grid(device, workload, group_size)
    banks = range(1, -(-workload.model.experts // group_size) + 1)
    outside = [_outside_ns(contest, group_size, each) for each in banks]
    predicted = [
        tuple(float(pipe + more) / 1e9 for pipe, more in zip(times(grid, len(banks), depth), outside, strict=True))
        for times in (pipe_times, roofline_times)
    ]
    simulated = tuple(simulate(device, workload, Settings(group_size, each, depth)).seconds for each in banks)
    fits = max(0, device_banks(device, workload, contest.budget_bytes, group_size))
    return PlanCurves(group_size, fits, predicted[0], predicted[1], simulated)


def _plan(planner: str, contest: Contest, choice: Choice) -> Plan:
    outside = _outside_ns(contest, choice.group_size, choice.banks)
    settings = Settings(choice.group_size, choice.banks, choice.queue_depth)
    return Plan(planner, settings, (choice.pipe_ns + outside) / 1e9)


def _outside_ns(contest: Contest, group_size: int, banks: int) -> int:
    """What a request takes beside its layers' pipelines."""
    times = service_times_of(contest.device, contest.workload, group_size, banks)
    return times.lead_ns + times.tail_ns + sum(layer.rest_ns for layer in times.passes)
