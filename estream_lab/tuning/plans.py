"""Two planners on one simulated device: the max-plus recurrence, and the roofline that knows nothing of waiting."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from estream_lab.simulate.rivals import Contest
from estream_lab.simulate.soc import Settings, service_times_of
from estream_lab.tuning.devices import device_candidates, device_depth
from estream_lab.tuning.grids import group_sizes
from estream_lab.tuning.maxplus import Choice, best
from estream_lab.tuning.roofline import roofline_best


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


def _plan(planner: str, contest: Contest, choice: Choice) -> Plan:
    times = service_times_of(contest.device, contest.workload, choice.group_size, choice.banks)
    outside = times.lead_ns + times.tail_ns + sum(layer.rest_ns for layer in times.passes)
    settings = Settings(choice.group_size, choice.banks, choice.queue_depth)
    return Plan(planner, settings, (choice.pipe_ns + outside) / 1e9)
