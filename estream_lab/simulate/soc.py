"""A request on a simulated device: profile and workload to service times, the live lane's policies to a trace.

A layer's non-expert work takes its operations at the device's dense rate, and a group its overhead plus its routes'
operations at the expert rate, without padding; a read is its bytes at the bandwidth that outstanding reads share.
Nothing here is measured: the device profile says how sure each number is.
"""

from dataclasses import dataclass
from typing import Any

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import CarryOver, policy
from estream_lab.simulate.device import Device
from estream_lab.simulate.replay import replay
from estream_lab.simulate.times import LayerTimes, ServiceTimes
from estream_lab.simulate.workload import Workload
from estream_lab.trace import Trace, npu_idle, storage_idle
from estream_lab.trace.bubbles import bubble_shares


@dataclass(frozen=True)
class Settings:
    """How a request is run: G, B, Q, the schedule's name, and whether it goes on with the next layer's groups."""

    group_size: int
    banks: int
    queue_depth: int
    schedule: str = "early"
    carry_over: bool = False


@dataclass(frozen=True)
class Simulation:
    """A simulated request.

    Attributes:
        device, workload, settings: what was simulated.
        trace: on the clock "simulated".
    """

    device: Device
    workload: Workload
    settings: Settings
    trace: Trace

    @property
    def seconds(self) -> float:
        """Request time."""
        return self.trace.request_ns / 1e9

    @property
    def storage_idle(self) -> float:
        """Share of the request without a read."""
        return storage_idle(self.trace)

    @property
    def npu_idle(self) -> float:
        """Share of the request without dense or expert work."""
        return npu_idle(self.trace)

    @property
    def bubbles(self) -> dict[str, dict[str, float]]:
        """Of "storage" and "compute": the share of the request's time of each cause (`trace.bubbles`)."""
        return bubble_shares(self.trace)

    @property
    def bytes_read(self) -> int:
        """Of all reads."""
        return sum(span.bytes or 0 for span in self.trace.select("storage"))

    @property
    def bytes_needed(self) -> int:
        """Of the groups that had routes."""
        ran = {(span.layer, span.group) for span in self.trace.select("expert")}
        return sum(s.bytes or 0 for s in self.trace.select("storage") if (s.layer, s.group) in ran)

    @property
    def bytes_speculative(self) -> int:
        """Of groups that were read before the routes were known and then had none."""
        return self.bytes_read - self.bytes_needed

    @property
    def arena_bytes(self) -> int:
        """B · G · W_e, in padded records."""
        return self.settings.banks * self.settings.group_size * self.workload.model.expert_bytes

    @property
    def other_bytes(self) -> int:
        """M_other, see `other_bytes`."""
        return other_bytes(self.device, self.workload)

    @property
    def peak_bytes(self) -> int:
        """The arena and M_other."""
        return self.arena_bytes + self.other_bytes

    def to_json(self) -> dict[str, Any]:
        """Figures and where they come from; no trace."""
        settings, device = self.settings, self.device
        return {
            "kind": self.trace.provenance["kind"], "lane": self.trace.provenance["lane"],
            "device": device.name, "scope": device.scope,
            "model": self.workload.model.title, "routes": self.workload.origin,
            "tokens": self.workload.tokens, "seconds": self.seconds,
            "tokens_per_second": self.workload.tokens / self.seconds,
            "schedule": settings.schedule, "carry_over": settings.carry_over, "group_size": settings.group_size,
            "banks": settings.banks, "queue_depth": settings.queue_depth,
            "storage_idle": self.storage_idle, "npu_idle": self.npu_idle, "bubbles": self.bubbles,
            "bytes_read": self.bytes_read, "bytes_needed": self.bytes_needed,
            "bytes_speculative": self.bytes_speculative,
            "arena_bytes": self.arena_bytes, "other_bytes": self.other_bytes, "peak_bytes": self.peak_bytes,
        }  # fmt: skip


def simulate(device: Device, workload: Workload, settings: Settings) -> Simulation:
    """What would happen on this device. More queue places than banks never help: Q is at most B.

    Raises:
        EStreamError: no bank or queue place, more banks than groups (unless carried over), a group size that the model
            has not, no such schedule, or one that can't be carried over.
    """
    schedule = policy(settings.schedule, carry_over=settings.carry_over)
    groups = workload.rows(settings.group_size).shape[1]
    if settings.banks > groups and not isinstance(schedule, CarryOver):
        raise EStreamError(
            f"a layer has {groups} groups of {settings.group_size}, so {settings.banks} banks are never all used: "
            f"choose {groups} or fewer"
        )
    used = Settings(
        settings.group_size, settings.banks, min(settings.queue_depth, max(1, settings.banks)),
        schedule.name, isinstance(schedule, CarryOver),
    )  # fmt: skip
    times = service_times_of(device, workload, used.group_size, used.banks)
    place = {"banks": used.banks, "queue_depth": used.queue_depth}
    trace = replay(times, Policies(schedule), storage=device.storage(), **place)
    facts = {**trace.provenance, **provenance(device, workload, used.group_size)}
    return Simulation(device, workload, used, Trace(trace.spans, facts))


def provenance(device: Device, workload: Workload, group_size: int) -> dict[str, str | int | float | bool]:
    """Of a simulated trace: what was simulated, how sure it is, and whether the profile was made for it."""
    inside = device.covers(workload.model.title, workload.tokens, group_size)
    return {
        "kind": f"simulated ({device.mark} profile, {'scope' if inside else 'outside its scope'} {device.scope})",
        "machine": device.title,
        "device": device.name,
        "model": workload.model.title,
        "tokens": workload.tokens,
        "routes": workload.origin,
        "group_size": group_size,
    }


def other_bytes(device: Device, workload: Workload) -> int:
    """M_other: dense weights, keys and values, and what the runtime takes (as the profile has it)."""
    model = workload.model
    dense = model.non_expert_weights * device["dense_weight"]
    return round(dense + model.kv_bytes * workload.tokens + device["runtime_memory"])


def service_times_of(device: Device, workload: Workload, group_size: int, banks: int) -> ServiceTimes:
    """T^ne, X_k and the bytes of every group in every sparse layer.

    The bank synchronisation acts between a layer's last group and the next layer's begin, once for each of ``banks``:
    nothing is computed then, and nothing is read unless the schedule carries over. It is the time in which a host tells
    the device of the banks of a new layer. L_k is a lone read's, for those who need one; `simulate` takes the bytes.

    Raises:
        EStreamError: a group size that the model has not, or no bank.
    """
    if banks < 1:
        raise EStreamError(f"{banks} banks hold no group: give at least 1")
    model, rows = workload.model, workload.rows(group_size)
    records = [min(group_size, model.experts - first) for first in range(0, model.experts, group_size)]
    sizes = tuple(count * model.expert_bytes for count in records)
    lone = tuple(read_ns(device, size, 1) for size in sizes)
    non_expert = _ns(model.layer_flops(workload.tokens), device["dense_rate"])
    rest = round(banks * device["bank_synchronisation"])
    passes = []
    for layer in range(model.layers):
        routed = {group: int(count) for group, count in enumerate(rows[layer]) if count}
        runs = {group: run_ns(device, workload, count) for group, count in routed.items()}
        passes.append(LayerTimes(layer, non_expert, lone, runs, sizes, routed, rest))
    return ServiceTimes(tuple(passes), lead_ns=_ns(model.lead_flops(workload.tokens), device["dense_rate"]))


def read_ns(device: Device, count: int, outstanding: int) -> int:
    """L of a read of ``count`` bytes if ``outstanding`` equal ones are under way all the time."""
    rates = device.read_bandwidths
    rate = rates[min(outstanding, len(rates)) - 1].value
    return max(1, round(device["read_latency"] + 1e9 * count * outstanding / rate))


def run_ns(device: Device, workload: Workload, rows: int) -> int:
    """X of a group with so many routes."""
    return max(1, round(device["group_overhead"]) + _ns(rows * workload.model.route_flops, device["expert_rate"]))


def _ns(operations: float, rate: float) -> int:
    return round(1e9 * operations / rate)
