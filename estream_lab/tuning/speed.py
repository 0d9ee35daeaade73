"""How long a selection takes, on service times that are made up: drawn from a seed, in no relation to any machine."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from estream_lab.tuning.grids import QUEUE_DEPTHS, configurations, group_sizes
from estream_lab.tuning.maxplus import Candidate, LayerGrid, best

SEED = 0
EXPERTS = 128  # Qwen3-30B-A3B: G is 8, 16 or 32
LAYERS = 48


@dataclass(frozen=True)
class Case:
    """A selection to time.

    Attributes:
        name: of it. configurations: (Q, B, G) that are weighed. layers: sparse ones. groups: K of the smallest G.
        gate_seconds: what the median is held to.
        candidates: group sizes. depths: each is selected for in turn.
    """

    name: str
    configurations: int
    layers: int
    groups: int
    gate_seconds: float
    candidates: tuple[Candidate, ...]
    depths: tuple[int, ...]

    def select(self) -> None:
        """Select once."""
        for depth in self.depths:
            best(self.candidates, depth)


def cases() -> tuple[Case, ...]:
    """Qwen3's grid as `estream configure` weighs it, at one depth; and all of its configurations with K = 128 groups a
    layer at every group size, which no layer of 128 experts has.
    """
    own = _candidates({size: EXPERTS // size for size in group_sizes(EXPERTS)})
    many = _candidates(dict.fromkeys(group_sizes(EXPERTS), EXPERTS))
    depth = QUEUE_DEPTHS[-1]
    return (
        Case("Qwen3's grid at Q0", sum(each.banks for each in own), LAYERS, len(own[0].grid.runs) // LAYERS, 0.15e-3,
             own, (depth,)),
        Case("every configuration, K = 128", len(configurations(EXPERTS)), LAYERS, EXPERTS, 1e-3, many, QUEUE_DEPTHS),
    )  # fmt: skip


def seconds_of(case: Case, rounds: int) -> list[float]:
    """Seconds of ``rounds`` selections; the first, which compiles or loads the kernel, isn't counted."""
    case.select()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        case.select()
        found.append(time.perf_counter() - start)
    return found


def measure(rounds: int) -> list[dict[str, str | int | float | bool]]:
    """A row for each case, with the median and the spread of its seconds."""
    rows = []
    for case in cases():
        found = seconds_of(case, rounds)
        rows.append(_row(case, found))
    return rows


def _row(case: Case, seconds: Sequence[float]) -> dict[str, str | int | float | bool]:
    middle = statistics.median(seconds)
    return {
        "name": case.name,
        "configurations": case.configurations,
        "layers": case.layers,
        "groups": case.groups,
        "seconds_median": middle,
        "seconds_least": min(seconds),
        "seconds_most": max(seconds),
        "gate_seconds": case.gate_seconds,
        "within_gate": middle <= case.gate_seconds,
    }


def _candidates(groups: dict[int, int]) -> tuple[Candidate, ...]:
    """For each G, so many groups a layer; B up to E / G."""
    draw = np.random.default_rng(SEED)
    found = []
    for size, count in groups.items():
        reads = draw.uniform(0.5, 2.0, (LAYERS, 1, count)) * size  # at depth 1, ns
        shared = np.concatenate([reads, 1.8 * reads], axis=1)  # two share a bandwidth that one doesn't quite use
        runs = draw.uniform(0.5, 2.0, (LAYERS, count)) * size
        grid = LayerGrid.of(list(shared), list(runs), draw.uniform(10.0, 40.0, LAYERS))
        found.append(Candidate(size, size, EXPERTS // size, grid))
    return tuple(found)
