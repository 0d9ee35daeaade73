"""Marks held to a recorded baseline: what is simulated or computed exactly, what is measured loosely or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from estream_lab.errors import EStreamError
from estream_lab.notebooks.baseline import Figure, hold, recorded
from estream_lab.tuning.paper.marks import MEASURED, Mark


def figures(marks: Sequence[Mark], *, measured: bool) -> dict[str, Figure]:
    """The values by place; ``measured``: those too that a run on this computer gave.

    Raises:
        EStreamError: two marks of one place.
    """
    found: dict[str, Figure] = {}
    for mark in marks:
        if mark.place in found:
            raise EStreamError(f"two marks are both {mark.place}: give one a note")
        if measured or mark.kind != MEASURED:
            found[mark.place] = mark.value
    return found


def check(marks: Sequence[Mark], baseline: Path, name: str, *, measured: float | None = None) -> int:
    """Hold marks to those that a file records under a name; returns how many were compared.

    Simulated, fitted and computed values are the same on every computer, to the last bit.

    Args:
        marks: found now. baseline, name: the file, and what of it.
        measured: how far measured values may be off, in their unit; by default they are this computer's alone, and held
            to nothing.

    Raises:
        EStreamError: a figure that left its baseline, was added or is gone; no such file or name in it.
    """
    kept = figures(marks, measured=measured is not None)
    theirs: dict[str, Figure] = recorded(baseline, name)

    def near(at: str) -> bool:
        if at.startswith(f"{MEASURED}/"):
            return abs(float(kept[at]) - float(theirs[at])) <= (measured or 0.0)
        return kept[at] == theirs[at]

    return hold(kept, theirs, near)
