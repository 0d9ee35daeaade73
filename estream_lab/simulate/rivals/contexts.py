"""A context of the NPU's runtime for each expert, created anew whenever the expert is needed ("QNN-switch")."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import OnDemand
from estream_lab.simulate.replay import replay
from estream_lab.simulate.rivals.contest import Contest
from estream_lab.simulate.rivals.outcome import Outcome, kind
from estream_lab.simulate.rivals.rows import exact
from estream_lab.simulate.soc import other_bytes, service_times_of
from estream_lab.simulate.times import ServiceTimes

SETUP_SECONDS = 0.016
"""What QNN's profiler gave for the part of a context's creation that the device takes (16.3 ms of 53.8 ms in all), for
one model of unstated size on a Qualcomm phone: pytorch/executorch, pull request 5928. The smaller figure favours this
contestant."""


@dataclass(frozen=True)
class Contexts:
    """QNN-switch: weights are constants of compiled graphs, so each expert is a context binary that is read, made into
    a context, run and freed, one after the other; rows are compacted, which static graphs would not do.

    Source: the problem that the paper starts from (graphs fix their parameters when they are compiled). What creating a
    context costs isn't in it.

    Attributes:
        setup_seconds: of creating one, beside the read of its binary; assumed, see `SETUP_SECONDS`.
        copies: of an expert's weights that memory holds meanwhile; two are assumed, binary and context.
    """

    name: str = "QNN-switch"
    setup_seconds: float = SETUP_SECONDS
    copies: int = 2

    def run(self, contest: Contest) -> Outcome:
        """See `Contestant`."""
        if not 0 <= self.setup_seconds < float("inf") or self.copies < 1:
            raise EStreamError(
                f"{self.name} can't create contexts in {self.setup_seconds:g} s with {self.copies} copies: give a time "
                "of 0 or more and at least one copy"
            )
        device, workload = contest.device, contest.workload
        trace = replay(self._times(contest), Policies(OnDemand()), banks=1, queue_depth=1)
        return Outcome(
            self.name, f"{1e3 * self.setup_seconds:g} ms a context", kind(contest, 1), trace.request_ns / 1e9,
            other_bytes(device, workload) + self.copies * workload.model.expert_bytes, contest.budget_bytes,
            sum(span.bytes or 0 for span in trace.select("storage")), exact(contest),
            assumed=(f"context set-up {1e3 * self.setup_seconds:g} ms", f"{self.copies} copies of an expert"),
        )  # fmt: skip

    def _times(self, contest: Contest) -> ServiceTimes:
        """An expert's read takes what it takes alone, and the set-up after it."""
        plain = service_times_of(contest.device, contest.workload, 1, 1)
        setup = round(1e9 * self.setup_seconds)
        return replace(
            plain,
            passes=tuple(
                replace(layer, reads_ns=tuple(read + setup for read in layer.reads_ns)) for layer in plain.passes
            ),
        )


def by_setup(contest: Contest, milliseconds: Sequence[float]) -> list[Outcome]:
    """What creating a context may cost: the contestant once for each time, named by it.

    Raises:
        EStreamError: as `Contexts.run`.
    """
    return [Contexts(f"a context in {ms:g} ms", ms / 1e3).run(contest) for ms in milliseconds]
