"""Service times out of a measured trace: what its reads, executions and non-expert work took.

As the recurrence has it, a time is counted from the event that let the work start: what threads take to hand over to
each other, and a decision to be made, is in the times.
"""

from bisect import bisect_right
from itertools import pairwise
from statistics import median

from estream_lab.errors import EStreamError
from estream_lab.simulate.storage import SharedBandwidth
from estream_lab.simulate.times import LayerTimes, ServiceTimes
from estream_lab.trace import Span, Trace
from estream_lab.trace.passes import Pass, passes


def service_times(trace: Trace, groups: int | None = None) -> ServiceTimes:
    """L_k, X_k and T^ne of every pass of a streamed request.

    A group that was not read in a pass is given the median time of the layer's reads, and the bytes of its read in
    another pass, else of the layer's largest. Waits are left out: they follow from the policies.

    Args:
        trace: of one request, on any clock that carries time.
        groups: K, of every layer; as many as the trace names by default.

    Raises:
        EStreamError: several requests in one trace, or one without reads, routes or time.
    """
    windows = trace.windows
    if len(windows) != 1:
        raise EStreamError(f"service times are those of one request, and this trace has {len(windows)}: split it")
    if any(span.clock == "order" for span in trace.spans):
        raise EStreamError("this trace numbers steps without time, so it has no service times: use a timed lane")
    if not trace.select("storage"):
        raise EStreamError("nothing was read in this trace, so it has no read times: record a streamed request")
    found = passes(trace)
    count = groups if groups is not None else 1 + max(span.group for span in trace.spans if span.group is not None)
    (start, end) = windows[0]
    head = min(
        (s.start_ns for s in trace.select("dense") if s.layer is None and s.start_ns >= found[-1].end_ns), default=end
    )
    reads = {layer: _reads(trace, layer, found) for layer in {each.layer for each in found}}
    bounds = [*(each.begin_ns for each in found[1:]), head]
    layers = tuple(_layer(each, bound, reads[each.layer], count) for each, bound in zip(found, bounds, strict=True))
    return ServiceTimes(layers, found[0].begin_ns - start, end - head, trace.provenance)


def shared_bandwidth(trace: Trace, bytes_per_second: float | None = None) -> SharedBandwidth:
    """A storage whose reads share one bandwidth, and take on top what this trace's reads do.

    Args:
        trace: of a streamed request.
        bytes_per_second: the bandwidth; by default the declared one, or what was read while any read was under way.

    Raises:
        EStreamError: a trace in which no bytes were read.
    """
    reads = trace.select("storage")
    busy = sum(ends - begins for begins, ends, count in _outstanding(reads) if count)
    if not busy or not any(span.bytes for span in reads):
        raise EStreamError("no bytes were read in this trace, so it says nothing of storage: record a streamed request")
    declared = trace.provenance.get("read_bandwidth_bytes_per_second")
    achieved = float(declared) if declared else sum(span.bytes or 0 for span in reads) / busy * 1e9
    return SharedBandwidth(bytes_per_second or achieved, max(0, round(median(_excess(trace, achieved)))))


def _excess(trace: Trace, bytes_per_second: float) -> list[float]:
    """Of each read: its time in ns, shared time counted by its share, beyond what its bytes take."""
    reads = trace.select("storage")
    shares = [(begins, ends, count) for begins, ends, count in _outstanding(reads) if count]
    lates = _started_late(trace, passes(trace))
    excess = []
    for span in reads:
        own = sum(
            (min(ends, span.end_ns) - max(begins, span.start_ns)) / count
            for begins, ends, count in shares
            if begins < span.end_ns and ends > span.start_ns
        )
        excess.append(lates[span] + own - 1e9 * (span.bytes or 0) / bytes_per_second)
    return excess


def _outstanding(reads: tuple[Span, ...]) -> list[tuple[int, int, int]]:
    """(from, to, how many reads are under way) of every stretch between starts and ends of reads."""
    moments = sorted({moment for span in reads for moment in (span.start_ns, span.end_ns)})
    return [
        (begins, ends, sum(span.start_ns <= begins and span.end_ns >= ends for span in reads))
        for begins, ends in pairwise(moments)
    ]


def _started_late(trace: Trace, found: tuple[Pass, ...]) -> dict[Span, int]:
    """How long after the event that let it start each read began, in ns: the latest event before it."""
    events = sorted(
        [span.end_ns for unit in ("storage", "expert") for span in trace.select(unit)]
        + [moment for each in found for moment in (each.begin_ns, each.routed_ns)]
    )
    lates = {}
    for span in trace.select("storage"):
        before = bisect_right(events, span.start_ns)
        lates[span] = span.start_ns - events[before - 1] if before else 0
    return lates


def _reads(trace: Trace, layer: int, found: tuple[Pass, ...]) -> list[tuple[Span, int]]:
    """The layer's reads (any layer's if it has none), each with its L_k."""
    lates = _started_late(trace, found)
    mine = trace.select("storage", layer) or trace.select("storage")
    return [(span, max(1, span.duration_ns + lates[span])) for span in mine]


def _layer(each: Pass, bound: int, reads: list[tuple[Span, int]], count: int) -> LayerTimes:
    """One pass; ``bound`` is when what follows it begins, ``reads`` are of all passes through its layer."""
    missing = set(each.rows) - {span.group for span in each.runs}
    if missing:
        raise EStreamError(
            f"group {min(missing)} of layer {each.layer} has routes and was not run: the trace is cut off"
        )
    own = {span.group: (span, time) for span, time in reads if span.end_ns <= bound and span.layer == each.layer}
    typical = round(median(time for _, time in reads))
    sizes = {span.group: span.bytes or 0 for span, _ in reads if span.layer == each.layer}
    largest = max(span.bytes or 0 for span, _ in reads)
    runs, free = {}, each.routed_ns
    for span in each.runs:
        assert span.group is not None
        ready = own[span.group][0].end_ns if span.group in own else free
        runs[span.group] = max(1, span.end_ns - max(free, ready))
        free = span.end_ns
    return LayerTimes(
        each.layer,
        each.routed_ns - each.begin_ns,
        tuple(own[group][1] if group in own else typical for group in range(count)),
        runs,
        tuple(sizes.get(group, largest) for group in range(count)),
        each.rows,
        bound - each.end_ns,
    )
