"""A simulated device's service times as candidates to choose from: the configuration model without measurements."""

from __future__ import annotations

from estream_lab.engine.memory import most_banks
from estream_lab.simulate.device import Device
from estream_lab.simulate.soc import other_bytes, read_ns, service_times_of
from estream_lab.simulate.workload import Workload
from estream_lab.tuning.configure import PEAK_SHARE
from estream_lab.tuning.grids import group_sizes
from estream_lab.tuning.maxplus import Candidate, LayerGrid


def device_depth(device: Device) -> int:
    """Q0: the smallest depth that reaches 95 % of the peak bandwidth (paper section 6)."""
    rates = [number.value for number in device.read_bandwidths]
    return next(depth for depth, rate in enumerate(rates, 1) if rate >= PEAK_SHARE * max(rates))


def device_candidates(device: Device, workload: Workload, budget_bytes: int) -> list[Candidate]:
    """The group sizes of the paper's grid of which a bank fits the budget, with as many banks as fit; none may.

    L_k is that of reads which are outstanding together all the time. What a device takes to synchronise banks is in
    neither the recurrence nor here.
    """
    return [
        Candidate(size, size * workload.model.expert_bytes, banks, device_grid(device, workload, size))
        for size in group_sizes(workload.model.experts)
        if (banks := device_banks(device, workload, budget_bytes, size)) >= 1
    ]


def device_grid(device: Device, workload: Workload, group_size: int) -> LayerGrid:
    """Service times at every queue depth that the device has a bandwidth for."""
    passes = service_times_of(device, workload, group_size, 1).passes
    depths = range(1, len(device.read_bandwidths) + 1)
    return LayerGrid.of(
        [[[read_ns(device, count, depth) for count in layer.read_bytes] for depth in depths] for layer in passes],
        [[layer.runs_ns.get(group, 0) for group in range(len(layer.read_bytes))] for layer in passes],
        [layer.non_expert_ns for layer in passes],
        [[group in layer.runs_ns for group in range(len(layer.read_bytes))] for layer in passes],
    )


def device_banks(device: Device, workload: Workload, budget_bytes: int, size: int) -> int:
    """B_max(g): as many banks as fit the budget, of a layer's groups; below 1 where none does."""
    groups = -(-workload.model.experts // size)
    return most_banks(budget_bytes, other_bytes(device, workload), size * workload.model.expert_bytes, groups)
