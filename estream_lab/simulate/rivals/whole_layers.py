"""Whole layers streamed through two layer buffers: one computes while the next is read."""

from dataclasses import dataclass

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import CarryOver
from estream_lab.simulate.replay import replay
from estream_lab.simulate.rivals.contest import Contest
from estream_lab.simulate.rivals.outcome import Outcome, streamed
from estream_lab.simulate.rivals.rows import exact
from estream_lab.simulate.soc import Settings, Simulation, service_times_of
from estream_lab.simulate.storage import DepthBandwidth


@dataclass(frozen=True)
class WholeLayers:
    """All experts of a layer are one read, whether they have routes or not, into the buffer that is free.

    Source: the layer-wise offloading of FlexGen (Sheng et al., arXiv 2303.06865) and of AirLLM, at this device's
    bandwidth. Reads begin with the first layer's work and go on across layers.

    Attributes:
        buffers: layers in memory; two, as double buffering has it.
        pieces: a layer's read is cut into so many that are outstanding together. That storage is read at its best is
            assumed, so the default is as many as the device's bandwidths tell of.
    """

    name: str = "whole layers"
    buffers: int = 2
    pieces: int | None = None

    def run(self, contest: Contest) -> Outcome:
        """See `Contestant`."""
        device, workload = contest.device, contest.workload
        rates = [number.value for number in device.read_bandwidths]
        pieces = len(rates) if self.pieces is None else self.pieces
        if self.buffers < 1 or pieces < 1:
            raise EStreamError(
                f"{self.name} can't run with {self.buffers} buffers and reads in {pieces} pieces: give 1 or more"
            )
        settings = Settings(workload.model.experts, self.buffers, 1, carry_over=True)
        storage = DepthBandwidth((rates[min(pieces, len(rates)) - 1],), round(device["read_latency"]))
        times = service_times_of(device, workload, settings.group_size, settings.banks)
        trace = replay(times, Policies(CarryOver()), banks=self.buffers, queue_depth=1, storage=storage)
        found = Simulation(device, workload, settings, trace)
        told = f"{self.buffers} buffers, reads in {pieces} pieces"
        return streamed(self.name, told, contest, found, exact(contest))
