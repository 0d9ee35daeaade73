"""When each region of VTCM holds a value that is still needed, read off a schedule of steps."""

from collections.abc import Sequence
from dataclasses import dataclass

from estream_lab.kernels.vtcm import CONSTANTS, Step


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A value in a region: from the place of the first step that writes it to behind that of the last that reads it.

    `number` counts the region's values, `panel` names what the step works on that begins it.
    """

    region: str
    number: int
    start: int
    end: int
    panel: str


def lifetimes(steps: Sequence[Step], places: Sequence[int]) -> list[Lifetime]:
    """Every value of every region that isn't constant, in order of their first steps.

    A value may be written in parts, by several steps in turn (the SwiGLU tiles): it begins with the first write after
    a read. One that is never read ends with its last write.

    Args:
        steps: of one slot. places: where each stands in the order (`estream_lab.experts.order_steps.positions`).
    """
    found: list[_Value] = []
    held: dict[str, _Value] = {}
    for step, place in zip(steps, places, strict=True):
        for region in {access.region for access in step.reads} - set(CONSTANTS):
            held[region].read, held[region].end = True, place + 1
        for region in {access.region: None for access in step.writes}:
            value = held.get(region)
            if value is None or value.read:
                number = 0 if value is None else value.number + 1
                held[region] = value = _Value(region, number, place, place + 1, panel_name(step))
                found.append(value)
            value.end = max(value.end, place + 1)
    return [Lifetime(value.region, value.number, value.start, value.end, value.panel) for value in found]


@dataclass(slots=True)
class _Value:
    region: str
    number: int
    start: int
    end: int
    panel: str
    read: bool = False


def panel_name(step: Step) -> str:
    """What a step works on, in short: g3 is gate and up panel 3, d1 down panel 1, r0 the rows of row tile 0."""
    letters = {"gate_up": "g", "down": "d", "": "r"}
    return f"{letters[step.projection]}{step.panel if step.projection else step.row_tile}"
