"""Idle time of the storage and of the executing unit over a request.

The paper prints "bubble rates" without a definition; its numbers behave like idle time of the storage lane over the
request (docs: choices). Both readings are given, each under its own name.
"""

from estream_lab.errors import EStreamError
from estream_lab.trace.intervals import union_ns
from estream_lab.trace.schema import Trace

COMPUTE_UNITS = ("dense", "expert")


def _idle(trace: Trace, units: tuple[str, ...]) -> float:
    clocks = {span.clock for span in trace.spans if span.unit in (*units, "request")}
    if "order" in clocks:
        raise EStreamError("This trace numbers steps without time, so it has no idle share; use a timed lane.")
    if len(clocks) > 1:
        raise EStreamError(
            f"This trace mixes the clocks {', '.join(sorted(clocks))}; bring its spans to one clock first."
        )
    total = trace.request_ns
    if total == 0:
        raise EStreamError("This trace covers no time, so it has no idle share; record a request first.")
    busy = [(span.start_ns, span.end_ns) for span in trace.spans if span.unit in units]
    # what the windows hold beyond the busy union: |busy or window| - |busy|; spans outside a request do not count
    return (union_ns([*busy, *trace.windows]) - union_ns(busy)) / total


def storage_idle(trace: Trace) -> float:
    """1 - |union of reads| / request time, in 0..1.

    Raises `EStreamError` for a trace that covers no time, numbers steps only, or mixes clocks.
    """
    return _idle(trace, ("storage",))


def npu_idle(trace: Trace) -> float:
    """1 - |union of dense and expert work| / request time, in 0..1, for the unit that executes.

    On a CPU lane it is shown as "compute idle". Raises `EStreamError` as `storage_idle`.
    """
    return _idle(trace, COMPUTE_UNITS)
