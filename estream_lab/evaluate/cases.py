"""Which steps of the device's arithmetic are compared with what."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from estream_lab.kernels.exact import DEFAULT_PROFILE, PROFILES
from estream_lab.kernels.exact.switches import STORED, Switches

EXACT = Switches()
"""Nothing is on: the checkpoint's own weights, float64 experts."""

OFF = Switches(quantise=True)
"""Q4_0 weights, and no step of the device's arithmetic: what all others are compared with."""

FP16 = replace(OFF, decode=True, operands=True, accumulator=STORED)
"""fp16 operands and results, and sums that lose nothing: what an accumulator is compared with."""


@dataclass(frozen=True)
class Case:
    """A comparison.

    Attributes:
        group: "alone", "cumulative" or "device".
        name: of the step, or of all steps so far.
        switches, reference: what is compared with what.
    """

    group: str
    name: str
    switches: Switches
    reference: Switches = OFF


SCATTER = (
    Case("alone", "fp32 scatter", replace(OFF, scatter="visit")),
    Case("alone", "scatter reversed", replace(OFF, scatter="reverse"), replace(OFF, scatter="visit")),
)
"""What float32 sums of a token's experts change, and what their order does."""


def device(profile: str) -> Switches:
    """All steps, over weights that are quantised here."""
    return replace(Switches.device(profile), quantise=True)


def cases(profile: str = DEFAULT_PROFILE, profiles: Sequence[str] = tuple(PROFILES)) -> tuple[Case, ...]:
    """Each step alone, the steps one after the other under `profile`, and all of them under each of `profiles`."""
    alone = [
        Case("alone", "Q4_0 weights", OFF, EXACT),
        Case("alone", "decode to fp16", replace(OFF, decode=True)),
        Case("alone", "fp16 operands", replace(OFF, operands=True)),
        Case("alone", "results stored as fp16", replace(OFF, accumulator=STORED)),
        *(Case("alone", f"accumulator {name}", replace(FP16, accumulator=name), FP16) for name in profiles),
        Case("alone", "SiLU table", replace(OFF, silu=True)),
        *SCATTER,
    ]
    whole = device(profile)
    steps = {
        "decode to fp16": replace(OFF, decode=True),
        "+ fp16 operands": replace(OFF, decode=True, operands=True),
        "+ results stored as fp16": FP16,
        f"+ accumulator {profile}": replace(FP16, accumulator=profile),
        "+ SiLU table": replace(whole, scatter=None),
        "+ fp32 scatter: the device": whole,
    }
    cumulative = [Case("cumulative", name, switches) for name, switches in steps.items()]
    devices = [Case("device", name, device(name)) for name in profiles]
    return (*alone, *cumulative, *devices)
