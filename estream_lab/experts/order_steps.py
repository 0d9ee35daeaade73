"""The steps of the exact executor's invocations as spans on the clock `order`: a sequence, without time."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from estream_lab.kernels.vtcm import Step
from estream_lab.trace import Provenance, Recorder, Trace

STEP_UNITS = ("dma", "vector", "matrix")


class StepRecorder:
    """Collects the steps of one request.

    A step stands where it would if every step took one unit: after the step before it on its unit and after what it
    waits for. Slots follow each other. A cost model can give the steps time later.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """A new request begins."""
        self._recorder = Recorder("exact", "order")
        self._next = 0
        self._place: dict[str, int] = {}

    def place(self, *, layer: int, group: int, bank: int) -> None:
        """Where the next invocations belong."""
        self._place = {"layer": layer, "group": group, "bank": bank}

    def listener(self, slots: NDArray[np.int32]) -> Callable[[int, Sequence[Step]], None]:
        """What an operator tells its steps: (S,) int32, the physical slot of each of its slots."""

        def add(slot: int, steps: Sequence[Step]) -> None:
            self._add(int(slots[slot]), steps)

        return add

    def _add(self, slot: int, steps: Sequence[Step]) -> None:
        starts = positions(steps)
        for step, start in zip(steps, starts, strict=True):
            at = self._next + start
            moved = sum(access.bytes for access in step.writes) if step.kind == "fetch" else None
            name = f"{step.kind} {step.projection}".replace("_", " and ").strip()
            panel = step.panel if step.panel >= 0 else None
            self._recorder.add(
                step.unit, name, at, at + 1, **self._place, slot=slot, tile=panel, rows=step.rows, bytes=moved
            )
        self._next += max(starts, default=-1) + 1

    def trace(self, provenance: Provenance) -> Trace:
        """All steps since `clear`, with where they come from."""
        return self._recorder.trace({**provenance, "kind": "steps in order, without time"})


def positions(steps: Sequence[Step]) -> list[int]:
    """For each step, the earliest place in which it can be if every step takes one."""
    last: dict[str, int] = {}
    places: list[int] = []
    for step in steps:
        place = 1 + max([last.get(step.unit, -1), *(places[wait] for wait in step.waits)])
        last[step.unit] = place
        places.append(place)
    return places
