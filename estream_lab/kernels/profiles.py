"""Numerics profiles: what a matrix unit's accumulator does, by name (docs/numerics.md)."""

from dataclasses import dataclass

from estream_lab.errors import EStreamError


@dataclass(frozen=True)
class Profile:
    """An accumulator.

    Attributes:
        name: as `--profile` takes it.
        group: products that are aligned and added together before they meet the accumulator; 1 for fp32.
        exponent_bits: of the accumulator.
        largest: the largest code that a store writes: 0x7BFF is 65504, 0x7FFF is 131008.
        meant_for: which matrix unit.
    """

    name: str
    group: int
    exponent_bits: int
    largest: int
    meant_for: str

    @property
    def block_floating(self) -> bool:
        """Whether the accumulator is block floating point, not fp32."""
        return self.group > 1

    @property
    def least_exponent(self) -> int:
        """X_min: the exponent that a block floating accumulator starts with and never goes below."""
        return -(1 << (self.exponent_bits - 1))


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("ieee_fp32", 1, 8, 0x7BFF, "no matrix unit: the reference for the others"),
        Profile("hmx_v73_g4", 4, 7, 0x7FFF, "Hexagon v73"),
        Profile("hmx_v75_g8", 8, 7, 0x7FFF, "Hexagon v75"),
        Profile("hmx_v79_g8", 8, 7, 0x7FFF, "Hexagon v79"),
        Profile("hmx_v81_g8_a39", 8, 9, 0x7FFF, "Hexagon v81"),
    )
}
"""Reported by public sources, none checked on a device: see docs/numerics.md."""

DEFAULT_PROFILE = "hmx_v75_g8"

DEFAULT_VTCM_BYTES = 8 << 20
"""Common, but a device is asked for its own (docs/numerics.md, sources)."""


def profile(name: str) -> Profile:
    """The profile of this name.

    Raises:
        EStreamError: there is none.
    """
    if name not in PROFILES:
        raise EStreamError(f"there is no numerics profile '{name}': choose one of {', '.join(PROFILES)}")
    return PROFILES[name]
