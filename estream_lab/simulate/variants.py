"""Devices that nobody has: a profile with other numbers, drawn from a seed, to try a method on more than one device."""

from dataclasses import replace

import numpy as np

from estream_lab.simulate.device import Device, Number

FACTORS = {"dense_rate": (0.5, 2.0), "expert_rate": (0.5, 2.0)}
"""Of the profile's own value, from and to, drawn evenly on a logarithmic scale."""

LONE_READ = (0.6, 1.4)
"""What the bandwidth of one outstanding read is multiplied by, likewise."""

GAIN = (1.0, 1.5)
"""How many times faster two outstanding reads are together than a lone one; drawn evenly, as all that follows."""

ADDED = {
    "bank_synchronisation": (0.0, 170e3),  # published inference: 0.17 ms of it per layer and bank
    "group_overhead": (0.0, 500e3),
    "read_latency": (0.0, 200e3),
}
"""Costs in ns, whatever the profile has."""


def drawn_device(base: Device, seed: int) -> Device:
    """``base`` with other rates, another gain by a second read, and costs of banks, groups and reads.

    The same seed gives the same device. Its numbers that request times come from are marked assumed, and nothing is
    fitted to it.

    Raises:
        EStreamError: as `Device`.
    """
    draw = np.random.default_rng(seed)
    values = {name: base[name] * _even_log(draw, *ends) for name, ends in FACTORS.items()}
    values |= {name: float(draw.uniform(*ends)) for name, ends in ADDED.items()}
    lone = base.read_bandwidths[0].value * _even_log(draw, *LONE_READ)
    rates = (lone, lone * float(draw.uniform(*GAIN)))
    source = f"drawn with seed {seed} around the profile '{base.name}' (simulate/variants.py)"
    return replace(
        base,
        name=f"{base.name}-{seed}",
        title=f"made-up device {seed} around the {base.title}",
        scope="none: made up",
        fitted_to=None,
        read_bandwidths=tuple(Number(rate, "bytes/s", "assumed", source) for rate in rates),
        numbers={
            **base.numbers,
            **{name: Number(value, base.numbers[name].unit, "assumed", source) for name, value in values.items()},
        },
    )


def _even_log(draw: np.random.Generator, least: float, most: float) -> float:
    return float(np.exp(draw.uniform(np.log(least), np.log(most))))
