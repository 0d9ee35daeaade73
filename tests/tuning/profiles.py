"""Profiles made up for tests: of a simulated storage and executor, and as drawn by hand."""

from collections.abc import Sequence

import numpy as np

from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import Early
from estream_lab.machine import processor
from estream_lab.simulate import LayerTimes, ServiceTimes, Storage, replay
from estream_lab.tuning.calibration import Calibration
from estream_lab.tuning.profile import Origin, Profile
from estream_lab.tuning.service import ServiceModel

RECORD = 1000  # bytes
SERVICE = ServiceModel(1, 100, 50, 10, 0, 0, 0)


def routes(layers: int, experts: int, seed: int = 0, most: int = 30) -> np.ndarray:
    """(layers, E)."""
    return np.random.default_rng(seed).integers(0, most, (layers, experts))


def calibration(
    loads: np.ndarray,
    size: int,
    depth: int,
    storage: Storage,
    *,
    non_expert: int = 3000,
    rest: int = 7,
    service: ServiceModel = SERVICE,
) -> Calibration:
    """A replayed request: executions follow ``service``, reads ``storage``."""
    layers, experts = loads.shape
    count = -(-experts // size)
    padded = np.pad(loads, ((0, 0), (0, count * size - experts))).reshape(layers, count, size)
    sizes = tuple(RECORD * min(size, experts - first) for first in range(0, experts, size))
    passes = []
    for layer in range(layers):
        times = service.predict(padded[layer])
        runs = {k: round(float(times[k])) for k in range(count) if times[k]}
        rows = {k: int(padded[layer, k].sum()) for k in runs}
        passes.append(LayerTimes(layer, non_expert, sizes, runs, sizes, rows, rest))  # a byte takes a ns
    banks = min(count, 3)
    trace = replay(ServiceTimes(tuple(passes), 5, 11), Policies(Early()), banks=banks, queue_depth=min(depth, banks),
                   storage=storage)  # fmt: skip
    trace.provenance["group_size"] = size
    return Calibration.of(trace)


def profile(
    loads: np.ndarray,
    runs: Sequence[Calibration],
    *,
    other_bytes: int = 30_000,
    record: int = RECORD,
    checksum: str = "0" * 16,
    machine: str | None = None,
) -> Profile:
    """Of these samples."""
    origin = Origin(machine or processor(), checksum, "2026-01-01T00:00:00+00:00", "made-up", "made up", 9, 1,
                    "host-f32", 0.0, True)  # fmt: skip
    plain = tuple(tuple(int(count) for count in layer) for layer in loads)
    return Profile(origin, plain, (record,) * len(loads), record, other_bytes, other_bytes, tuple(runs), SERVICE)
