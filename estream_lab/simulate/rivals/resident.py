"""All experts in memory before the request begins."""

from dataclasses import dataclass

from estream_lab.simulate.rivals.contest import Contest
from estream_lab.simulate.rivals.outcome import Outcome, kind
from estream_lab.simulate.rivals.rows import exact
from estream_lab.simulate.soc import other_bytes, service_times_of


@dataclass(frozen=True)
class Resident:
    """Nothing is read during the request, and each layer's experts run as one invocation, rows compacted.

    Source: the "same backend, all experts resident" of the paper's comparison. Reading the experts beforehand is told
    apart, as `Outcome.preload_bytes`; no bank is synchronised.
    """

    name: str = "all resident"

    def run(self, contest: Contest) -> Outcome:
        """See `Contestant`."""
        device, workload = contest.device, contest.workload
        times = service_times_of(device, workload, workload.model.experts, 1)
        total = times.lead_ns + times.tail_ns
        total += sum(layer.non_expert_ns + sum(layer.runs_ns.values()) for layer in times.passes)
        peak = other_bytes(device, workload) + contest.store_bytes
        experts = workload.model.experts
        return Outcome(
            self.name, "each layer at once", kind(contest, experts), total / 1e9, peak, contest.budget_bytes, 0,
            exact(contest), preload_bytes=contest.store_bytes,
        )  # fmt: skip
