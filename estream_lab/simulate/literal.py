"""The literal recurrence (paper section 6) on a device's service times, beside the simulator's.

It takes L_k as given for a queue depth: with q reads outstanding all the time, each takes q times its bytes at their
common bandwidth. The simulator's reads are faster while they are alone; and those that start together end together.
"""

from estream_lab.simulate.device import Device
from estream_lab.simulate.recurrence import recurrence
from estream_lab.simulate.soc import Settings, read_ns, service_times_of
from estream_lab.simulate.workload import Workload
from estream_lab.trace import union_ns


def literal(device: Device, workload: Workload, settings: Settings) -> tuple[float, float]:
    """Request time in seconds and the idle share of storage, by `recurrence`, layer by layer.

    Groups without routes are left out: the recurrence knows nothing of reads for them.

    Raises:
        EStreamError: as `soc.service_times_of` and `recurrence`.
    """
    times = service_times_of(device, workload, settings.group_size, settings.banks)
    depth = min(settings.queue_depth, settings.banks) if settings.schedule != "on-demand" else 1
    total, busy = times.lead_ns + times.tail_ns, 0
    for layer in times.passes:
        reads = [read_ns(device, layer.read_bytes[group], depth) for group in layer.needed]
        runs = [layer.runs_ns[group] for group in layer.needed]
        found = recurrence(reads, runs, layer.non_expert_ns, settings.banks, depth, settings.schedule)
        total += max(found.f, default=layer.non_expert_ns) + layer.rest_ns
        busy += union_ns(zip(found.a, found.d, strict=True))
    return total / 1e9, 1 - busy / total
