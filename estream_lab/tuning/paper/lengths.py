"""The paper's figure of prompt lengths: time to the answer from 256 to 4,096 tokens, nothing refitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from estream_lab.simulate.device import Device
from estream_lab.simulate.heldout import HELDOUT, fastest
from estream_lab.simulate.models import MODELS
from estream_lab.simulate.soc import Simulation
from estream_lab.simulate.workload import Workload
from estream_lab.tuning.grids import Configuration
from estream_lab.tuning.paper.configurations import PUBLISHED_POINTS
from estream_lab.tuning.paper.marks import FITTED, Mark, published_mark, simulated_kind

TIME, ERROR = "time to first token", "distance from the published value"
FITTED_ID = "olmoe_g8q2b3"
"""What is published of OLMoE at 1,024 tokens, the only length with its configuration."""


@dataclass(frozen=True)
class Size:
    """How much is simulated: models of `MODELS`, and numbers of tokens."""

    models: tuple[str, ...]
    tokens: tuple[int, ...]


FULL = Size(tuple(MODELS), (256, 512, 1024, 2048, 4096))
FAST = Size(("olmoe", "lfm2", "mixtral"), (1024, 4096))


@dataclass(frozen=True, eq=False)
class Run:
    """One model at one length, in the fastest configuration: its name in `MODELS`, T, and the simulation."""

    model: str
    tokens: int
    simulation: Simulation

    @property
    def of(self) -> str:
        """Of marks."""
        return f"{self.simulation.workload.model.title}, {self.tokens} tokens"

    @property
    def kind(self) -> str:
        """Of marks: fitted at the profile's model and length with any G, since what is published of it is what the
        profile was fitted to; held out everywhere else."""
        found, to = self.simulation, self.simulation.device.fitted_to
        fitted_size = None if to is None else to.group_size
        return simulated_kind(found.device, found.workload, fitted_size or found.settings.group_size)

    @property
    def configuration(self) -> str:
        """In words."""
        settings = self.simulation.settings
        return Configuration(settings.queue_depth, settings.banks, settings.group_size).told


def runs(device: Device, size: Size) -> list[Run]:
    """Every model at every length; G, B and Q are the fastest of `heldout.fastest`, as the paper's configurator would
    have it: the published ones aren't printed."""
    return [
        Run(name, tokens, fastest(device, Workload.synthetic(MODELS[name], tokens)))
        for name in size.models
        for tokens in size.tokens
    ]


def published_seconds(run: Run) -> list[Mark]:
    """What is published of a model at a length, as a time; a throughput is turned into one."""
    found = []
    if (run.model, run.tokens) == ("olmoe", 1024):
        found.append(published_mark(FITTED_ID, run.of, TIME))
    for each in HELDOUT:
        if (each.model, each.tokens) == (run.model, run.tokens):
            mark = published_mark(each.id, run.of, TIME)
            found.append(replace(mark, value=run.tokens / mark.value, unit="s") if each.throughput else mark)
    return found


def marks(found: Sequence[Run]) -> list[Mark]:
    """Simulated and published times, and how far they are apart, in per cent of the published ones.

    Of OLMoE at 1,024 tokens that is no evidence: the profile was fitted to the published time, with another G.
    """
    made = []
    for run in found:
        made.append(Mark(run.of, TIME, run.simulation.seconds, "s", run.kind, run.configuration))
        for theirs in published_seconds(run):
            away = 100 * (run.simulation.seconds / theirs.value - 1)
            note = f"published at {PUBLISHED_POINTS[FITTED_ID].told}" if run.kind == FITTED else ""
            made += [theirs, Mark(run.of, ERROR, away, "%", run.kind, note)]
    return made
