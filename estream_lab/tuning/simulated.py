"""Profiles of a simulated device, made as on a real one: from the traces of calibrating requests; noise; and sweeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from estream_lab.simulate.device import Device
from estream_lab.simulate.soc import Settings, other_bytes, simulate
from estream_lab.simulate.workload import Workload
from estream_lab.tuning.calibration import Calibration, banks_to_calibrate
from estream_lab.tuning.grids import QUEUE_DEPTHS, Configuration, configurations, group_sizes
from estream_lab.tuning.profile import Origin, Profile
from estream_lab.tuning.service import fit

REQUEST_NOISE = 0.01
"""By how much all times of one request are off together, as of a processor that is warmer: a standard deviation."""

SAMPLE_NOISE = 0.03
"""By how much each of its times is off by itself: a standard deviation."""


def simulated_profile(device: Device, workload: Workload) -> Profile:
    """One calibrating request for every candidate g and queue depth, pooled as those of a real engine.

    What the profile knows of the device is in the requests' traces, but for M_other, which is read off a simulated
    request as its peak less its arena.

    Raises:
        EStreamError: as `simulate`.
    """
    experts = workload.model.experts
    runs = []
    for size in group_sizes(experts):
        groups = -(-experts // size)
        for depth in (depth for depth in QUEUE_DEPTHS if depth <= groups):
            banks = min(banks_to_calibrate(depth), groups)
            runs.append(Calibration.of(simulate(device, workload, Settings(size, banks, depth)).trace))
    return Profile(
        origin=_origin(device, workload),
        routes=tuple(tuple(map(int, layer)) for layer in workload.loads),
        record_bytes=(workload.model.expert_bytes,) * workload.model.layers,
        slot_bytes=workload.model.expert_bytes,
        other_bytes=other_bytes(device, workload),
        measured_other_bytes=other_bytes(device, workload),
        runs=tuple(runs),
        service=fit([
            (layer, workload.loads[layer, group * run.group_size : (group + 1) * run.group_size], float(ns))
            for run in runs
            for layer, group, ns in run.executions
        ]),
    )  # fmt: skip


def simulated_sweep(
    device: Device, workload: Workload, *, told: Callable[[int], None] | None = None
) -> tuple[dict[Configuration, float], dict[Configuration, int]]:
    """Seconds and peak bytes of a request at every configuration of the grid, early, without noise.

    Args:
        told: of every configuration that was simulated, 1.

    Raises:
        EStreamError: as `simulate`.
    """
    seconds, peaks = {}, {}
    for each in configurations(workload.model.experts):
        found = simulate(device, workload, Settings(each.group_size, each.banks, each.queue_depth))
        seconds[each], peaks[each] = found.seconds, found.peak_bytes
        if told is not None:
            told(1)
    return seconds, peaks


def with_noise(profile: Profile, seed: int) -> Profile:
    """The same profile as a noisy clock would have it: every time is off by a factor drawn from ``seed``.

    The service model, which no selection for the same routes uses, stays.
    """
    draw = np.random.default_rng((seed, 1))  # no relation to a device drawn from the same seed
    return replace(profile, runs=tuple(_with_noise(run, draw) for run in profile.runs))


def _with_noise(run: Calibration, draw: np.random.Generator) -> Calibration:
    together = draw.normal(0, REQUEST_NOISE)

    def factors(count: int) -> list[float]:
        return [float(each) for each in np.exp(together + draw.normal(0, SAMPLE_NOISE, count))]

    waits = run.non_expert_ns
    return replace(
        run,
        non_expert_ns=tuple(round(f * ns) for f, ns in zip(factors(len(waits)), waits, strict=True)),
        outside_ns=round(factors(1)[0] * run.outside_ns),
        loadings=tuple(
            read._replace(ns=max(1, round(f * read.ns)), own_ns=max(1, round(f * read.own_ns)))
            for f, read in zip(factors(len(run.loadings)), run.loadings, strict=True)
        ),
        executions=tuple(
            each._replace(ns=max(1, round(f * each.ns)))
            for f, each in zip(factors(len(run.executions)), run.executions, strict=True)
        ),
    )  # fmt: skip


def _origin(device: Device, workload: Workload) -> Origin:
    return Origin(
        machine=f"{device.title} (simulated)",
        store_checksum="",
        date="",
        model=workload.model.title,
        prompt=f"routes {workload.origin}",
        tokens=workload.tokens,
        threads=1,
        numerics_profile="simulated",
        read_bandwidth=0.0,
        direct_io=True,
    )
