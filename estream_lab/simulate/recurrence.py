"""The max-plus recurrence of one layer, line by line (paper section 6), and the same times read off a trace."""

from collections.abc import Sequence
from dataclasses import dataclass

from estream_lab.errors import EStreamError
from estream_lab.experts.schedule import POLICIES
from estream_lab.trace import Trace


@dataclass(frozen=True)
class Timetable:
    """Of each group in visit order, in the unit of the service times.

    Attributes:
        a: read starts. d: read completes. s: execution starts. f: execution completes.
    """

    a: tuple[int, ...]
    d: tuple[int, ...]
    s: tuple[int, ...]
    f: tuple[int, ...]


def recurrence(
    reads: Sequence[int],
    runs: Sequence[int],
    non_expert: int,
    banks: int,
    queue_depth: int,
    schedule: str = "early",
    routed: Sequence[bool] | None = None,
) -> Timetable:
    """The times of one layer, from empty banks: of the groups that are scheduled.

    These are the ones with routes, and those without whose read starts before T^ne is over in the early schedule: they
    are speculative, and count with X = 0.

    d_{k-q} is taken literally: read k waits for read k-q, even if another of the q reads under way ends before. With
    equal L_k that is what q queue places do. With unequal ones a pipeline may read earlier than the recurrence says,
    and may then finish earlier or later.

    Args:
        reads, runs: L_k and X_k. non_expert: T^ne. banks, queue_depth: b and q. schedule: one of the published three.
        routed: whether a group has routes; by default all have. The X_k of one that hasn't is not looked at.

    Raises:
        EStreamError: no such schedule, or lists of unequal length.
    """
    if schedule not in POLICIES:
        raise EStreamError(f"unknown schedule '{schedule}': choose one of {', '.join(POLICIES)}")
    if len(reads) != len(runs):
        raise EStreamError(
            f"{len(reads)} reads and {len(runs)} executions are not of one layer: give one of each a group"
        )
    a: list[int] = []
    d: list[int] = []
    s: list[int] = []
    f: list[int] = []
    for group, (read, run) in enumerate(zip(reads, runs, strict=True)):
        k, needed = len(a), routed is None or routed[group]
        if schedule == "on-demand":
            start = max(non_expert, _before(f, k - 1))
        else:
            routes = non_expert if schedule == "after-routing" else 0
            start = max(_before(d, k - queue_depth), _before(f, k - banks), routes)
        if not needed and (schedule != "early" or start >= non_expert):
            continue
        a.append(start)
        d.append(a[k] + read)
        s.append(max(d[k], non_expert, _before(f, k - 1)))
        f.append(s[k] + (run if needed else 0))
    return Timetable(tuple(a), tuple(d), tuple(s), tuple(f))


def timetable(trace: Trace, layer: int = 0) -> Timetable:
    """The same times of a trace's first pass through ``layer``, in ns since its request's start; groups that ran only.

    Raises:
        EStreamError: a layer that isn't in the trace.
    """
    runs = trace.select("expert", layer)
    if not runs:
        raise EStreamError(f"no expert ran in layer {layer} of this trace: give a layer that is in it")
    start = trace.windows[0][0]
    read: dict[int | None, tuple[int, int]] = {}
    for span in reversed(trace.select("storage", layer)):  # the first read of each group stays
        read[span.group] = (span.start_ns - start, span.end_ns - start)
    first = {run.group: run for run in reversed(runs)}
    order = sorted(first, key=lambda group: first[group].start_ns)
    return Timetable(
        tuple(read[group][0] for group in order),
        tuple(read[group][1] for group in order),
        tuple(first[group].start_ns - start for group in order),
        tuple(first[group].end_ns - start for group in order),
    )


def _before(values: list[int], k: int) -> int:
    return values[k] if k >= 0 else 0
