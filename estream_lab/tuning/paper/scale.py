"""Memory and read floors of the models: what no configuration gets below, beside what the paper reports.

Sizes follow from published configurations. What the paper says of memory beside the arena is one figure: OLMoE with
eight banks takes 16.0 % more than with three.
"""

from __future__ import annotations

from collections.abc import Sequence

from estream_lab.simulate.device import Device
from estream_lab.simulate.models import MODELS, ModelShape
from estream_lab.simulate.published import published
from estream_lab.simulate.soc import other_bytes
from estream_lab.simulate.workload import Workload
from estream_lab.tuning.paper.lengths import FAST as FAST_LENGTHS
from estream_lab.tuning.paper.lengths import Run, Size, published_seconds
from estream_lab.tuning.paper.marks import COMPUTED, SIMULATED, Mark, published_mark, simulated_kind

TOKENS = (1024, 4096)
FULL, FAST = Size(tuple(MODELS), TOKENS), FAST_LENGTHS
GROUP_SIZE, FEW_BANKS, ALL_BANKS = 8, 3, 8
"""Of the 16.0 %."""

RECORD, EXPERTS, DENSE = "one expert's record", "all experts", "other weights"
ARENA, OTHER, PEAK = "arena", "M_other", "peak memory"
FLOOR, TIME, RATIO = "read floor", "time to first token", "published / floor"
MEMORY_RANGES = {"qwen3": "qwen3_memory", "mixtral": "mixtral_memory"}


def size_marks(names: Sequence[str], device: Device) -> list[Mark]:
    """W_e with its padding, all experts, and the other weights, in bytes.

    The first two follow from published configurations; what a dense weight takes in memory is the device profile's.
    """
    found = []
    for name in names:
        model = MODELS[name]
        dense = round(model.non_expert_weights * device["dense_weight"])
        found += [
            Mark(model.title, RECORD, model.expert_bytes, "bytes", COMPUTED),
            Mark(model.title, EXPERTS, expert_bytes(model), "bytes", COMPUTED),
            Mark(model.title, DENSE, dense, "bytes", SIMULATED, "as wide as the profile assumes"),
        ]
    return found


def expert_bytes(model: ModelShape) -> int:
    """All routed experts, in padded records."""
    return model.layers * model.experts * model.expert_bytes


def implied_other_bytes() -> float:
    """M_other of OLMoE at 1,024 tokens, from (M_other + 8 banks) = 1.16 · (M_other + 3 banks)."""
    bank = GROUP_SIZE * MODELS["olmoe"].expert_bytes
    share = published()["olmoe_b8_memory"].value / 100
    return (ALL_BANKS - FEW_BANKS) * bank / share - FEW_BANKS * bank


def other_marks(device: Device) -> list[Mark]:
    """M_other of OLMoE at 1,024 tokens as the 16.0 % imply it, and as the profile's parts sum up to, in bytes; the part
    that is left for the runtime was inferred from it."""
    model, tokens = MODELS["olmoe"], 1024
    share = published()["olmoe_b8_memory"].value
    of, workload = f"{model.title}, {tokens} tokens", Workload.synthetic(model, tokens)
    profiled = simulated_kind(device, workload, GROUP_SIZE)
    parts = (
        (DENSE, model.non_expert_weights * device["dense_weight"], profiled),
        ("keys and values", model.kv_bytes * tokens, COMPUTED),
        ("runtime", device["runtime_memory"], profiled),
    )
    return [
        Mark(of, OTHER, implied_other_bytes(), "bytes", COMPUTED, f"from {share:g} % more memory"),
        Mark(of, OTHER, other_bytes(device, workload), "bytes", profiled, "profile"),
        *(Mark(of, part, size, "bytes", kind, "part of M_other") for part, size, kind in parts),
    ]


def memory_marks(runs: Sequence[Run]) -> list[Mark]:
    """Arena, M_other and their sum in the fastest configuration, in bytes, beside the published peaks.

    Those are ranges from 1K to 4K tokens: the smaller value is taken for 1K. Fastest means up to four banks.
    """
    found = []
    for run in runs:
        peak = run.simulation
        found += [
            Mark(run.of, quantity, size, "bytes", run.kind, run.configuration)
            for quantity, size in ((ARENA, peak.arena_bytes), (OTHER, peak.other_bytes), (PEAK, peak.peak_bytes))
        ]
        if run.model in MEMORY_RANGES and run.tokens in TOKENS:
            end = ("min", "max")[TOKENS.index(run.tokens)]
            theirs = published_mark(f"{MEMORY_RANGES[run.model]}_{end}", run.of, PEAK)
            found.append(Mark(run.of, PEAK, theirs.value * 2**30, "bytes", theirs.kind, theirs.note))
    return found


def read_marks(runs: Sequence[Run]) -> list[Mark]:
    """The bytes of all groups with routes at the device's highest bandwidth, in seconds: no schedule is faster unless
    experts stay in memory. Beside it the simulated and the published time, and the latter in floors, which is of the
    profile as they are."""
    found = []
    for run in runs:
        simulation = run.simulation
        floor = simulation.bytes_needed / max(rate.value for rate in simulation.device.read_bandwidths)
        found.append(Mark(run.of, FLOOR, floor, "s", run.kind, run.configuration))
        found.append(Mark(run.of, TIME, simulation.seconds, "s", run.kind, run.configuration))
        for theirs in published_seconds(run):
            found += [theirs, Mark(run.of, RATIO, theirs.value / floor, "times", run.kind)]
    return found


def marks_of(runs: Sequence[Run], device: Device, size: Size) -> list[Mark]:
    """All of the above.

    Raises:
        EStreamError: no published figures, as in an installation without the checkout.
    """
    return [*size_marks(size.models, device), *other_marks(device), *memory_marks(runs), *read_marks(runs)]
