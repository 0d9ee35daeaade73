"""This computer as a device of the simulator: what a store's profile measured, in the numbers of a device profile."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from estream_lab.simulate.device import UNITS, Device, FittedTo, Number
from estream_lab.simulate.models import ModelShape
from estream_lab.tuning.profile import Profile

NOWHERE = "this computer has no such unit, and nothing here asks for it"


def own_device(profile: Profile, model: ModelShape) -> Device:
    """The device whose simulated requests come near the profile's.

    Reads go at the median bandwidth of the group sizes, deeper queues no slower than shallower ones. Non-expert work
    and routes go at one rate each, and a group has an overhead, by least squared relative error over the profile's
    groups. Everything outside the arena but keys and values is put down to the runtime.

    Args:
        profile: of a store on this machine. model: the store's sizes.
    """
    origin = profile.origin
    said = f"from a profile of {origin.tokens} tokens ({origin.prompt}), measured on {origin.date}"
    depths = [
        float(np.median([profile.bandwidth(size, depth) for size in profile.group_sizes]))
        for depth in profile.queue_depths
    ]
    reads = np.maximum.accumulate(depths).tolist()
    overhead, route_ns = _executions(profile)
    layer_ns = float(profile.grid(profile.group_sizes[0]).non_expert.mean())
    fitted = {
        "dense_rate": 1e9 * model.layer_flops(origin.tokens) / layer_ns,
        "expert_rate": 1e9 * model.route_flops / route_ns,
        "group_overhead": overhead,
        "runtime_memory": max(0, profile.other_bytes - model.kv_bytes * origin.tokens),
    }
    none = {
        "read_latency": "it is in the bandwidth",
        "bank_synchronisation": "it is in the groups' overhead",
        "dense_weight": "it is in the runtime's memory",
    }
    numbers = {}
    for name, unit in UNITS.items():
        if name in fitted:
            numbers[name] = Number(fitted[name], unit, "fitted", said)
        elif name in none:
            numbers[name] = Number(0, unit, "inferred", none[name])
        else:
            numbers[name] = Number(1, unit, "assumed", NOWHERE)
    limit = f", reads limited to {origin.read_bandwidth / 1e6:g} MB/s (declared)" if origin.read_bandwidth else ""
    return Device(
        name="here",
        title=f"{origin.machine}{limit}",
        scope=f"{model.title} at {origin.tokens} tokens",
        fitted_to=FittedTo(model.title, origin.tokens, group_size=None),
        read_bandwidths=tuple(Number(rate, "bytes/s", "fitted", said) for rate in reads),
        numbers=numbers,
    )


def _executions(profile: Profile) -> tuple[float, float]:
    """X = overhead + route · rows: both in ns, the overhead 0 or more."""
    loads = np.array(profile.routes)
    rows, times = [], []
    for size in profile.group_sizes:
        groups = np.add.reduceat(loads, range(0, profile.experts, size), axis=1)  # (layers, K)
        rows.append(groups[groups > 0])
        times.append(profile.grid(size).needed.runs)
    return _line(np.concatenate(rows).astype(np.float64), np.concatenate(times))


def _line(rows: NDArray[np.float64], times: NDArray[np.float64]) -> tuple[float, float]:
    """Overhead and slope of least squared relative error; a line through 0 where the overhead came out below."""
    parts = np.stack([np.ones_like(rows), rows], axis=1) / times[:, None]  # (samples, 2)
    overhead, slope = np.linalg.lstsq(parts, np.ones(len(rows)), rcond=None)[0]
    if overhead >= 0 and slope > 0:
        return float(overhead), float(slope)
    share = parts[:, 1]
    return 0.0, float(share.sum() / (share**2).sum())
