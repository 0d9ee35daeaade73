"""One measured request as samples of service times, which a profile pools (paper section 6)."""

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from estream_lab.errors import EStreamError
from estream_lab.simulate import LayerTimes, service_times
from estream_lab.trace import Trace


class Loading(NamedTuple):
    """One read.

    Attributes:
        layer, group: that was read. bytes: of it.
        ns: from the event that let it start to its end.
        own_ns: of that the storage's time: while n reads were under way, one n-th.
        outstanding: reads under way meanwhile, on average, itself included.
    """

    layer: int
    group: int
    bytes: int
    ns: int
    own_ns: int
    outstanding: float


class Execution(NamedTuple):
    """One group's execution: X in ns from the event that let it start."""

    layer: int
    group: int
    ns: int


BANKS_A_READ = 2  # one to read into and one to execute from


def banks_to_calibrate(queue_depth: int) -> int:
    """B of a calibrating request: enough for a full queue beside an execution, and another number for every depth, by
    which a profile tells what banks cost (the paper calibrates a g once, which can't).
    """
    return BANKS_A_READ * queue_depth


@dataclass(frozen=True)
class Calibration:
    """What one request at (g, q) took.

    Attributes:
        group_size, queue_depth, banks: that it ran with.
        non_expert_ns: T^ne of each layer.
        outside_ns: what is in no layer's recurrence: embedding, head, and what follows a layer's last expert.
        loadings: its reads. executions: its groups with routes, in visit order.
    """

    group_size: int
    queue_depth: int
    banks: int
    non_expert_ns: tuple[int, ...]
    outside_ns: int
    loadings: tuple[Loading, ...]
    executions: tuple[Execution, ...]

    @classmethod
    def of(cls, trace: Trace) -> "Calibration":
        """The samples of a streamed request whose prompt ran in one chunk.

        Raises:
            EStreamError: a trace without service times (`simulate.service_times`), or of several chunks.
        """
        times = service_times(trace)
        if [each.layer for each in times.passes] != list(range(len(times.passes))):
            raise EStreamError(
                "this trace passes through a layer twice: calibrate with a prompt that runs in one chunk"
            )
        facts = trace.provenance
        return cls(
            group_size=int(facts["group_size"]),
            queue_depth=int(facts["queue_depth"]),
            banks=int(facts["banks"]),
            non_expert_ns=tuple(each.non_expert_ns for each in times.passes),
            outside_ns=times.lead_ns + times.tail_ns + sum(each.rest_ns for each in times.passes),
            loadings=tuple(loading for each in times.passes for loading in _loadings(trace, each)),
            executions=tuple(
                Execution(each.layer, group, each.runs_ns[group]) for each in times.passes for group in each.needed
            ),
        )


def _loadings(trace: Trace, times: LayerTimes) -> list[Loading]:
    """The reads of one layer, in the order in which they started."""
    reads = trace.select("storage", times.layer)
    moments = sorted({moment for span in reads for moment in (span.start_ns, span.end_ns)})
    own, shared = dict.fromkeys(reads, 0.0), dict.fromkeys(reads, 0)
    for begins, ends in pairwise(moments):
        here = [span for span in reads if span.start_ns <= begins and span.end_ns >= ends]
        for span in here:
            own[span] += (ends - begins) / len(here)
            shared[span] += (ends - begins) * len(here)
    found = []
    for span in reads:
        assert span.group is not None
        ns = times.reads_ns[span.group]
        outstanding = shared[span] / span.duration_ns if span.duration_ns else 1.0
        late = ns - span.duration_ns  # nothing else is asked of storage by then, as far as this read is concerned
        found.append(Loading(times.layer, span.group, span.bytes or 0, ns, round(own[span]) + late, outstanding))
    return found
