"""How near the simulator comes to a measured request: the same policies over the request's own service times."""

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.retention import Retention
from estream_lab.experts.schedule import POLICIES, policy
from estream_lab.simulate.measured import service_times, shared_bandwidth
from estream_lab.simulate.replay import replay
from estream_lab.simulate.storage import Storage
from estream_lab.trace import Trace


def replayed(measured: Trace, storage: Storage | None = None) -> Trace:
    """A measured request once more on the virtual clock, under the policies that its provenance names.

    Its times and routes are put in; when each read and execution begins comes out. A distance in the request's time
    is what the policies decided otherwise, or what time was lost between things that no service time holds.

    Args:
        measured: of one streamed request.
        storage: how long reads take; each its own time by default (with `shared_bandwidth`, their bytes).

    Raises:
        EStreamError: a trace that doesn't say under what it ran, of a policy of one's own, or what `service_times`
            refuses.
    """
    facts = measured.provenance
    schedule, banks, depth = (facts.get(name) for name in ("schedule", "banks", "queue_depth"))
    if not isinstance(banks, int) or not isinstance(depth, int) or not isinstance(schedule, str):
        raise EStreamError("this trace doesn't say schedule, banks and queue depth: record a streamed request")
    if schedule not in POLICIES or facts.get("retention", Retention.name) != Retention.name:
        raise EStreamError(
            f"this trace ran under '{schedule}', keeping {facts.get('retention', Retention.name)}: only the published "
            "schedules that keep nothing can be replayed by name, give others to `replay`"
        )
    policies = Policies(policy(schedule, carry_over=bool(facts.get("carry_over"))))
    return replay(service_times(measured), policies, banks=banks, queue_depth=depth, storage=storage)


def both_replays(measured: Trace) -> dict[str, Trace]:
    """A measured request replayed with "own times" of its reads, and with reads that are "shared": they take their
    bytes at the declared bandwidth, or at what was reached, and what reads took on top in the median.

    Raises:
        EStreamError: as `replayed`.
    """
    return {"own times": replayed(measured), "shared": replayed(measured, shared_bandwidth(measured))}
