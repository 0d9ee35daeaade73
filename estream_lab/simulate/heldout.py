"""Published figures of other lengths and models, which the phone profile's fit knows nothing of.

Their G, B and Q are not published: simulated are those that the simulator finds fastest, as the paper's configurator
would have it. Nothing is fitted to them.
"""

from dataclasses import dataclass

from estream_lab.simulate.device import Device
from estream_lab.simulate.models import MODELS
from estream_lab.simulate.published import Published, published
from estream_lab.simulate.soc import Settings, Simulation, simulate
from estream_lab.simulate.workload import Workload

MOST_BANKS = 4
"""More of them are slower or no faster in every case here, and take long to try."""


@dataclass(frozen=True)
class Heldout:
    """One of them: its id in `published`, a key of `models.MODELS`, T, and whether it is tokens a second."""

    id: str
    model: str
    tokens: int
    throughput: bool

    @property
    def published(self) -> Published:
        """The figure.

        Raises:
            EStreamError: no published figures, as in an installation without the checkout.
        """
        return published()[self.id]

    def simulated(self, device: Device) -> tuple[float, Simulation]:
        """The figure as simulated, in the published unit, and the simulation."""
        best = fastest(device, Workload.synthetic(MODELS[self.model], self.tokens))
        return (self.tokens / best.seconds if self.throughput else best.seconds), best


HELDOUT = (
    Heldout("ttft_4k_olmoe", "olmoe", 4096, False),
    Heldout("ttft_4k_lfm2", "lfm2", 4096, False),
    Heldout("ttft_4k_deepseek", "deepseek", 4096, False),
    Heldout("qwen3_1k", "qwen3", 1024, True),
    Heldout("qwen3_4k", "qwen3", 4096, True),
    Heldout("mixtral_1k", "mixtral", 1024, True),
    Heldout("mixtral_4k", "mixtral", 4096, True),
)


def fastest(device: Device, workload: Workload) -> Simulation:
    """The fastest of the early schedule at Q = 1 and 2, with up to four banks of groups of g0, 2·g0 and 4·g0; of equals
    the first. g0 = E/16, but at least 4 and then at most E/4.

    Raises:
        EStreamError: as `simulate`.
    """
    experts = workload.model.experts
    least = max(1, min(max(4, experts // 16), experts // 4))
    tried = [
        simulate(device, workload, Settings(size, banks, depth))
        for size in (least, 2 * least, 4 * least)
        for banks in range(1, min(MOST_BANKS, -(-experts // size)) + 1)
        for depth in (1, 2)
        if size <= experts and depth <= banks
    ]
    return min(tried, key=lambda found: found.seconds)
