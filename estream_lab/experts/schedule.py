"""Schedules: who is read next, and when (paper section 5). Small pure classes, no clock and no I/O.

A schedule sees the pipeline through a `View` and names the group to read next, or None to wait. It is asked whenever
something has changed, while a queue place and a bank are to be had, until it says None. What it names is held to the
rules (`experts.rules`): a wrong schedule is refused, it never changes a result.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from estream_lab.errors import EStreamError
from estream_lab.experts.protocol import (
    NONE,
    GroupKey,
    Limits,
    State,
    evictable,
    held,
    outstanding,
    unread,
    unread_ahead,
)


@dataclass(frozen=True)
class View:
    """What a policy may know of the pipeline; everything in it is read only."""

    state: State
    limits: Limits

    @property
    def layer(self) -> int:
        """The layer under way."""
        return self.state.layer

    @property
    def routed(self) -> bool:
        """Whether the layer's routes are known."""
        return self.state.routed

    @cached_property
    def unread(self) -> tuple[GroupKey, ...]:
        """Groups of the layer still to be read, in visit order: all that may have work until the routes are known."""
        return unread(self.state, self.limits)

    @cached_property
    def ahead(self) -> tuple[GroupKey, ...]:
        """Groups of the following layer still to be read, in visit order."""
        return unread_ahead(self.state, self.limits)

    @property
    def free(self) -> int:
        """Banks that are available."""
        return len(self.state.free)

    @property
    def outstanding(self) -> int:
        """Reads that have started and not ended."""
        return outstanding(self.state)

    @property
    def spare(self) -> int:
        """Banks that a read could take: available ones, and those of kept groups that may be given up."""
        return self.free + len(self.evictable)

    @property
    def next_to_run(self) -> GroupKey | None:
        """The group that the executor wants next; None before the routes are known, and where it has run all."""
        return GroupKey(self.layer, self.state.to_run[0]) if self.state.to_run else None

    @property
    def running(self) -> bool:
        """Whether a group is being executed."""
        return self.state.running != NONE

    @cached_property
    def held(self) -> frozenset[GroupKey]:
        """Groups in a bank, loaded or being loaded."""
        return frozenset(held(self.state))

    @property
    def kept(self) -> tuple[GroupKey, ...]:
        """Groups kept for later passes, by bank."""
        return tuple(bank.key for bank in self.state.banks if bank.kept and bank.key is not None)

    @cached_property
    def evictable(self) -> tuple[GroupKey, ...]:
        """Kept groups that may be given up for the next read."""
        return evictable(self.state, self.limits)


class Schedule:
    """Derive from this and say what to read next.

    It is asked under the pipeline's lock, on whatever thread something has changed: answer at once. Lanes that share
    one object may ask it at the same time.

    Attributes:
        name: in traces and messages; the class's own unless it says another.
    """

    name: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        cls.name = vars(cls).get("name", cls.__name__)

    def next_read(self, view: View) -> GroupKey | None:
        """The group to read next, from ``view.unread`` or ``view.ahead``; None to wait for the next change."""
        raise NotImplementedError


class OnDemand(Schedule):
    """Read a group when the executor stands before it: every read is on the critical path."""

    name = "on-demand"

    def next_read(self, view: View) -> GroupKey | None:
        """See `Schedule`."""
        idle = view.routed and not view.running and not view.outstanding
        return view.next_to_run if idle and view.next_to_run not in view.held else None


class AfterRouting(Schedule):
    """Read as far ahead as banks allow once the routes are known: overlapped, but the first fill shows."""

    name = "after-routing"

    def next_read(self, view: View) -> GroupKey | None:
        """See `Schedule`."""
        return view.unread[0] if view.routed and view.unread else None


class Early(Schedule):
    """Read from the start of the layer's non-expert work, in offline order; skip what has no routes once they are
    known (EStream)."""

    name = "early"

    def next_read(self, view: View) -> GroupKey | None:
        """See `Schedule`."""
        return view.unread[0] if view.unread else None


class CarryOver(Early):
    """Early, and across the layer boundary: banks that the layer no longer needs are filled for the next one."""

    name = "early"

    def next_read(self, view: View) -> GroupKey | None:
        """See `Schedule`."""
        line = view.unread or view.ahead
        return line[0] if line else None


POLICIES: dict[str, Schedule] = {schedule.name: schedule for schedule in (OnDemand(), AfterRouting(), Early())}
"""The three published schedules, by the names that the command line takes."""


def policy(schedule: str | Schedule, *, carry_over: bool = False) -> Schedule:
    """The schedule of that name, or the one given; with ``carry_over`` the early one goes on with the next layer.

    Raises:
        EStreamError: no such schedule, none at all, or one that can't be carried over.
    """
    names = ", ".join(POLICIES)
    if isinstance(schedule, str) and schedule not in POLICIES:
        raise EStreamError(f"unknown schedule '{schedule}': choose one of {names}")
    chosen = POLICIES[schedule] if isinstance(schedule, str) else schedule
    if not isinstance(chosen, Schedule):
        raise EStreamError(f"a schedule is one of {names}, or an object of a class derived from Schedule, not {chosen}")
    if not carry_over or isinstance(chosen, CarryOver):
        return chosen
    if type(chosen) is not Early:
        raise EStreamError(
            f"only the early schedule can be carried over, not '{chosen.name}': the next layer's routes are unknown"
        )
    return CarryOver()
