"""Replays a schedule of steps over the bytes of VTCM and names every way in which it could go wrong.

Nothing here knows why `steps` places a wait where it does. What happens before what follows from units (each runs its
steps in order) and waits alone, kept as a clock for each step: how many steps of each unit have certainly ended when it
starts. The bytes are cut at every boundary of an access into cells; a cell remembers who wrote it last and who of each
unit read it last, and every access is held against these.

Cost: a sort of the boundaries, then one visit for each cell of each access.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from estream_lab.kernels.vtcm.panels import Access
from estream_lab.kernels.vtcm.plan import CONSTANTS, Region, TilePlan
from estream_lab.kernels.vtcm.steps import Step

Fault = Literal["capacity", "regions", "bounds", "order", "unordered", "constant", "unwritten", "wrong value"]

_NOBODY = -1
_BEFOREHAND = -2  # written before the first step

# The kind of step whose result a region holds, by the region's name without its number.
_PRODUCER = {
    "activations": "gather",
    "compressed": "fetch",
    "decoded": "decode",
    "output": "matmul",
    "swiglu": "swiglu",
}


@dataclass(frozen=True)
class Overlap:
    """One fault of a plan or schedule.

    | fault | says that |
    |---|---|
    | capacity | the region ends behind VTCM |
    | regions | it overlaps region `other` |
    | bounds | step `later` touches bytes outside it |
    | order | step `later` waits for itself or a step behind it, or for none that exists |
    | unordered | steps `earlier` and `later` touch the same bytes, one writes, and nothing makes one end first |
    | constant | step `later` writes what is never written |
    | unwritten | step `later` reads bytes that nobody wrote |
    | wrong value | step `later` reads what step `earlier` wrote, which isn't what it is meant to consume |

    Steps are indices, -1 where none is concerned.
    """

    fault: Fault
    region: str
    earlier: int = -1
    later: int = -1
    other: str = ""
    message: str = ""

    def __str__(self) -> str:
        return self.message


def check(plan: TilePlan, steps: Sequence[Step]) -> list[Overlap]:
    """Every fault of the plan and of these steps under it, none if it is sound.

    Of unordered steps, each is named with the last writer or readers before it. So not every pair need be named, but
    where none is, any two steps whose bytes overlap, one of them writing, are ordered: by way of those between them.
    """
    faults = [*_region_faults(plan), *_order_faults(steps)]
    if not any(fault.fault == "order" for fault in faults):
        faults += _Replay(plan, steps).run()
    return faults


def _region_faults(plan: TilePlan) -> list[Overlap]:
    faults = []
    regions = sorted(plan.regions, key=lambda region: (region.offset, region.end))
    reach: Region | None = None  # the region that ends last of those so far
    for region in regions:
        if region.offset < 0 or region.bytes < 1 or region.end > plan.vtcm_bytes:
            message = (
                f"{region.name} (bytes {region.offset} to {region.end}) lies outside VTCM of {plan.vtcm_bytes} bytes"
            )
            faults.append(Overlap("capacity", region.name, message=message))
        if reach is not None and region.offset < reach.end:
            message = f"{region.name} overlaps {reach.name} from byte {region.offset}"
            faults.append(Overlap("regions", region.name, other=reach.name, message=message))
        if reach is None or region.end > reach.end:
            reach = region
    return faults


def _order_faults(steps: Sequence[Step]) -> list[Overlap]:
    faults = []
    for place, step in enumerate(steps):
        if step.index != place:
            message = f"step {step.index} stands at place {place}"
            faults.append(Overlap("order", "", later=step.index, message=message))
        for wait in step.waits:
            if not 0 <= wait < place:
                message = f"{_name(step)} waits for step {wait}, which isn't before it"
                faults.append(Overlap("order", "", wait, place, message=message))
    return faults


class _Replay:
    """The steps in order of index, which is one order that units and waits allow."""

    def __init__(self, plan: TilePlan, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.offsets = {region.name: region.offset for region in plan.regions}
        self.sizes = {region.name: region.bytes for region in plan.regions}
        self.faults: dict[tuple[Fault, str, int, int], Overlap] = {}
        units = sorted({step.unit for step in steps})
        self.unit = [units.index(step.unit) for step in steps]
        self.clocks, self.turn = self._clocks(len(units))
        self.cuts = self._cuts()
        cells = len(self.cuts)
        self.writer = [_NOBODY] * cells
        self.written_as = [""] * cells  # the region through which the cell was written
        self.readers = [[_NOBODY] * cells for _ in units]  # the last of each unit
        for name in CONSTANTS:
            if name in self.offsets:
                for cell in self._cells(Access(name, 0, self.sizes[name])):
                    self.writer[cell], self.written_as[cell] = _BEFOREHAND, name

    def run(self) -> list[Overlap]:
        for step in self.steps:
            for access in step.reads:
                if self._within(step, access):
                    self._read(step, access)
            for access in step.writes:
                if self._within(step, access):
                    self._write(step, access)
        return list(self.faults.values())

    def _clocks(self, units: int) -> tuple[list[list[int]], list[int]]:
        """For each step, how many steps of each unit have ended when it starts, and its own turn in its unit."""
        clocks: list[list[int]] = []
        turns: list[int] = []
        latest: list[list[int]] = [[0] * units for _ in range(units)]  # when the next step of each unit may start
        for step, unit in zip(self.steps, self.unit, strict=True):
            clock = latest[unit].copy()
            for wait in step.waits:
                clock = [max(a, b) for a, b in zip(clock, clocks[wait], strict=True)]
                clock[self.unit[wait]] = max(clock[self.unit[wait]], turns[wait] + 1)
            turns.append(clock[unit])
            clocks.append(clock)
            latest[unit] = clock.copy()
            latest[unit][unit] += 1
        return clocks, turns

    def _cuts(self) -> list[int]:
        cuts = set()
        for name in CONSTANTS:
            if name in self.offsets:
                cuts |= {self.offsets[name], self.offsets[name] + self.sizes[name]}
        for access in {access for step in self.steps for access in (*step.reads, *step.writes)}:
            if access.region in self.offsets:
                first = self.offsets[access.region] + access.offset
                cuts |= {first, first + access.bytes}
        return sorted(cuts)

    def _cells(self, access: Access) -> range:
        first = self.offsets[access.region] + access.offset
        return range(bisect_left(self.cuts, first), bisect_left(self.cuts, first + access.bytes))

    def _within(self, step: Step, access: Access) -> bool:
        size = self.sizes.get(access.region, 0)
        if access.offset < 0 or access.bytes < 1 or access.offset + access.bytes > size:
            span = f"bytes {access.offset} to {access.offset + access.bytes}"
            self._report("bounds", access.region, -1, step.index, f"{_name(step)} touches {span} of {size}")
        return access.region in self.offsets

    def _read(self, step: Step, access: Access) -> None:
        readers = self.readers[self.unit[step.index]]
        for cell in self._cells(access):
            writer = self.writer[cell]
            if writer == _NOBODY:
                self._report("unwritten", access.region, -1, step.index, f"{_name(step)} reads what nobody wrote")
            elif writer != _BEFOREHAND and not self._before(writer, step.index):
                self._collision(access.region, writer, step.index)
            elif not self._meant(writer, self.written_as[cell], step, access.region):
                text = f"{_name(step)} reads what {self._named(writer)} left"
                self._report("wrong value", access.region, max(writer, -1), step.index, text)
            readers[cell] = step.index

    def _write(self, step: Step, access: Access) -> None:
        for cell in self._cells(access):
            if self.writer[cell] == _BEFOREHAND:
                self._report("constant", access.region, -1, step.index, f"{_name(step)} overwrites a constant")
            for other in (self.writer[cell], *(readers[cell] for readers in self.readers)):
                if other >= 0 and not self._before(other, step.index):
                    self._collision(access.region, other, step.index)
            self.writer[cell], self.written_as[cell] = step.index, access.region

    def _before(self, earlier: int, later: int) -> bool:
        return self.turn[earlier] < self.clocks[later][self.unit[earlier]]

    def _meant(self, writer: int, written_as: str, step: Step, region: str) -> bool:
        """Whether what `writer` wrote is what `step` is to find in this region."""
        if written_as != region:
            return False
        if writer == _BEFOREHAND:
            return True
        producer = self.steps[writer]
        if producer.kind != _PRODUCER.get(region.rstrip("0123")) or producer.row_tile != step.row_tile:
            return False
        of_whole_tile = producer.kind in ("gather", "swiglu")
        return of_whole_tile or (producer.projection, producer.panel) == (step.projection, step.panel)

    def _collision(self, region: str, earlier: int, later: int) -> None:
        text = f"{self._named(earlier)} and {self._named(later)} touch the same bytes, and neither has to wait"
        if earlier == later:
            text = f"{self._named(later)} writes bytes that it reads or writes elsewhere too"
        self._report("unordered", region, earlier, later, text)

    def _named(self, index: int) -> str:
        return "a constant" if index < 0 else _name(self.steps[index])

    def _report(self, fault: Fault, region: str, earlier: int, later: int, text: str) -> None:
        self.faults.setdefault(
            (fault, region, earlier, later), Overlap(fault, region, earlier, later, message=f"{region}: {text}")
        )


def _name(step: Step) -> str:
    what = " ".join(part for part in (step.kind, step.projection, str(step.panel) if step.panel >= 0 else "") if part)
    return f"step {step.index} ({what}, row tile {step.row_tile})"
