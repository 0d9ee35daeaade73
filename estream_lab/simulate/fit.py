"""The phone profile's fit: its few parameters against the seven published OLMoE-1K points.

A fit of five parameters to seven points is not evidence: what it says of a point left out of it (`leave_one_out`), and
of other lengths and models (`heldout.HELDOUT`), is worth more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from estream_lab.simulate.device import Device
from estream_lab.simulate.models import MODELS
from estream_lab.simulate.published import published
from estream_lab.simulate.simplex import minimise
from estream_lab.simulate.soc import Settings, simulate
from estream_lab.simulate.workload import Workload

TOKENS = 1024
BUBBLE_BANKS = 8
"""B of the three bubble rates. A choice: the paper prints none with them; 8 is every bank."""

LATENCY_TOLERANCE = 0.03
"""How near a latency should come, of its published value."""

BUBBLE_TOLERANCE = 0.02
"""How near a bubble rate should come, as a share of the request."""


@dataclass(frozen=True)
class Point:
    """A published value, and what is simulated to reach it.

    Attributes:
        name: for tables. value: in seconds, or a share of the request for a bubble rate.
        settings: of the simulation. bubble: whether it is a bubble rate: the idle share of storage.
    """

    name: str
    value: float
    settings: Settings
    bubble: bool = False

    @property
    def tolerance(self) -> float:
        """How far a simulated value may be off, in the value's unit."""
        return BUBBLE_TOLERANCE if self.bubble else LATENCY_TOLERANCE * self.value

    def simulated(self, device: Device, workload: Workload) -> float:
        """The same quantity, simulated."""
        found = simulate(device, workload, self.settings)
        return found.storage_idle if self.bubble else found.seconds


def points(bubble_banks: int = BUBBLE_BANKS) -> tuple[Point, ...]:
    """The seven points. That of Q = 1 follows from the one of Q = 2 and the published decrease.

    Raises:
        EStreamError: no published figures, as in an installation without the checkout.
    """
    figures = published()
    three = figures["olmoe_g8q2b3"].value
    lone = three / (1 - figures["olmoe_q1_to_q2"].value / 100)
    latencies = [
        ("B=2 Q=2", figures["olmoe_g8q2b2"].value, Settings(8, 2, 2)),
        ("B=3 Q=2", three, Settings(8, 3, 2)),
        ("B=8 Q=2", figures["olmoe_g8q2b8"].value, Settings(8, 8, 2)),
        ("B=3 Q=1", lone, Settings(8, 3, 1)),
    ]
    bubbles = [
        (f"storage idle, {schedule}", figures[name].value / 100, Settings(8, bubble_banks, 2, schedule))
        for name, schedule in (
            ("bubble_on_demand", "on-demand"), ("bubble_after_routing", "after-routing"), ("bubble_early", "early"),
        )
    ]  # fmt: skip
    return (*(Point(*each) for each in latencies), *(Point(*each, bubble=True) for each in bubbles))


def workload() -> Workload:
    """OLMoE at 1,024 tokens, with synthetic routes."""
    return Workload.synthetic(MODELS["olmoe"], TOKENS)


@dataclass(frozen=True)
class Parameter:
    """What the fit may change: a read bandwidth by its place, or a number by name; where it starts, and how far the
    first steps go, in the number's unit."""

    of: int | str
    start: float
    step: float


PARAMETERS = (
    Parameter(0, 3.2e9, 0.3e9),
    Parameter(1, 3.8e9, 0.3e9),
    Parameter("dense_rate", 4e12, 0.5e12),
    Parameter("expert_rate", 5e12, 0.5e12),
    Parameter("bank_synchronisation", 0.1e6, 0.1e6),
)


def fitted(
    device: Device, asked: Workload, to: Sequence[Point], parameters: Sequence[Parameter] = PARAMETERS
) -> Device:
    """``device`` with the parameters at which the squared distances from ``to``, each in its tolerance, sum to least.

    Raises:
        EStreamError: as `soc.simulate`.
    """
    units = np.array([parameter.step for parameter in parameters])

    def with_(at: NDArray[np.float64]) -> Device:
        pairs = list(zip(parameters, at * units, strict=True))
        reads = {p.of: float(value) for p, value in pairs if isinstance(p.of, int)}
        return device.with_values(reads, {p.of: float(value) for p, value in pairs if isinstance(p.of, str)})

    def cost(at: NDArray[np.float64]) -> float:
        if not _possible(parameters, at):
            return float("inf")
        return squared(with_(at), asked, to)

    start = np.array([parameter.start for parameter in parameters]) / units
    return with_(minimise(cost, start, np.ones(len(units)), tolerance=1e-4))


def squared(device: Device, asked: Workload, to: Sequence[Point]) -> float:
    """The squared distances of simulated points from published ones, each in its tolerance, summed."""
    return sum(((point.simulated(device, asked) - point.value) / point.tolerance) ** 2 for point in to)


def rounded(device: Device, parameters: Sequence[Parameter] = PARAMETERS) -> Device:
    """``device`` with its parameters to a thousandth of their first steps: what is written down of a fit."""

    def whole(value: float, step: float) -> float:
        return round(1000 * value / step) * step / 1000

    reads = {p.of: whole(device.read_bandwidths[p.of].value, p.step) for p in parameters if isinstance(p.of, int)}
    return device.with_values(reads, {p.of: whole(device[p.of], p.step) for p in parameters if isinstance(p.of, str)})


def leave_one_out(
    device: Device, asked: Workload, to: Sequence[Point], parameters: Sequence[Parameter] = PARAMETERS
) -> tuple[float, ...]:
    """What each point is simulated to be after a fit to the others."""
    fits = [fitted(device, asked, [other for other in to if other is not point], parameters) for point in to]
    return tuple(point.simulated(fit, asked) for point, fit in zip(to, fits, strict=True))


def _possible(parameters: Sequence[Parameter], at: NDArray[np.float64]) -> bool:
    """Whether rates are above 0, and bandwidths don't fall with more reads."""
    values = {p.of: value * p.step for p, value in zip(parameters, at, strict=True)}
    reads = [values[place] for place in sorted(key for key in values if isinstance(key, int))]
    rates = [value for name, value in values.items() if isinstance(name, str) and name.endswith("_rate")]
    return all(value > 0 for value in (*reads, *rates)) and reads == sorted(reads)
