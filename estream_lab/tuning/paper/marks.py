"""Values that stand beside each other, each saying how it came about."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from estream_lab.errors import EStreamError
from estream_lab.simulate.device import Device
from estream_lab.simulate.published import published
from estream_lab.simulate.workload import Workload

PUBLISHED, NOTED, MEASURED = "published", "published, in notes", "measured"
SIMULATED, FITTED, COMPUTED = "simulated", "fitted", "computed"

KINDS = {
    PUBLISHED: "printed in the paper",
    NOTED: "of a reader's notes on the paper, not checked against it",
    MEASURED: "by a run on this computer",
    FITTED: "simulated by a device profile where it was fitted: no evidence",
    SIMULATED: "by a device profile where nothing was fitted: held out",
    COMPUTED: "follows from the models' published sizes, or from published values, and from nothing else",
}
"""How a value came about, and what that means."""


@dataclass(frozen=True)
class Mark:
    """A value.

    Attributes:
        of: whose: a model, a length, a schedule. quantity: what.
        value: in ``unit``. kind: one of `KINDS`.
        note: what else there is to know, or "".

    Raises:
        EStreamError: an unknown kind.
    """

    of: str
    quantity: str
    value: float
    unit: str
    kind: str
    note: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise EStreamError(f"a value of kind '{self.kind}' says nothing: choose of {', '.join(KINDS)}")

    @property
    def place(self) -> str:
        """What no other mark beside it has."""
        return "/".join((self.kind, self.of, self.quantity, self.note))


def published_mark(id: str, of: str, quantity: str) -> Mark:
    """A published figure by its id; its own quantity and condition are the note.

    Raises:
        EStreamError: no published figures, as in an installation without the checkout.
    """
    figure = published()[id]
    kind = PUBLISHED if figure.mark == "p" else NOTED
    unit = "%" if figure.unit == "percent" else figure.unit
    return Mark(of, quantity, figure.value, unit, kind, f"{figure.quantity}: {figure.condition}")


def simulated_kind(device: Device, workload: Workload, group_size: int) -> str:
    """What a simulation's values are: fitted where the profile was, else simulated."""
    return FITTED if device.covers(workload.model.title, workload.tokens, group_size) else SIMULATED


def by_quantity(marks: Iterable[Mark]) -> dict[str, list[Mark]]:
    """The marks of each quantity, in order."""
    found: dict[str, list[Mark]] = {}
    for mark in marks:
        found.setdefault(mark.quantity, []).append(mark)
    return found
