"""Who may read and run when: the three schedules as one pure decision machine (paper section 5).

No clock and no I/O: a lane, a simulator or a hazard checker tells what happened and gets back what to do next.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from estream_lab.errors import EStreamError

ScheduleName = Literal["on-demand", "after-routing", "early"]


@dataclass(frozen=True)
class Policy:
    """When reads may start.

    Attributes:
        name: as on the command line.
        early: reads may start with the layer's non-expert work, in the offline group order, before routes are known.
        overlap: refills may run while groups execute; otherwise a group is read when the executor reaches it.
    """

    name: ScheduleName
    early: bool
    overlap: bool


POLICIES: dict[str, Policy] = {
    "on-demand": Policy("on-demand", early=False, overlap=False),
    "after-routing": Policy("after-routing", early=False, overlap=True),
    "early": Policy("early", early=True, overlap=True),
}


def policy(name: str) -> Policy:
    """The policy of that name.

    Raises:
        EStreamError: no such schedule.
    """
    try:
        return POLICIES[name]
    except KeyError:
        raise EStreamError(f"unknown schedule '{name}': choose one of {', '.join(POLICIES)}") from None


@dataclass(frozen=True)
class Read:
    """Start reading ``group`` into ``bank``."""

    group: int
    bank: int


@dataclass(frozen=True)
class Run:
    """Run ``group``, ready in ``bank``."""

    group: int
    bank: int


@dataclass(frozen=True)
class Release:
    """Give up ``bank``: its ``group`` was read early and turned out to have no route."""

    group: int
    bank: int


Action = Read | Run | Release


class LayerSchedule:
    """The pipeline of one layer: call an event, then carry out what `advance` returns.

    Groups run in scheduled order, one at a time; at most ``queue_depth`` reads are outstanding, issued first in first
    out; a group may be read once a bank is free. Banks are handed out in the order in which they became free.

    Args:
        groups: the layer's groups 0 .. groups - 1 in offline order.
        banks: B.
        queue_depth: Q.
        policy: which of the three schedules.
    """

    def __init__(self, groups: int, banks: int, queue_depth: int, policy: Policy) -> None:
        if banks < 1 or queue_depth < 1:
            raise EStreamError(f"a pipeline needs at least one bank and one queue place, not {banks} and {queue_depth}")
        self._policy, self._queue_depth = policy, queue_depth
        self._free = deque(range(banks))
        self._to_read: deque[int] = deque(range(groups)) if policy.early else deque()
        self._to_run: deque[int] = deque()
        self._reading: dict[int, int] = {}  # group -> bank
        self._ready: dict[int, int] = {}
        self._running: tuple[int, int] | None = None
        self._needed: frozenset[int] | None = None  # unknown until the router has run
        self._issued: list[int] = []

    @property
    def issued(self) -> tuple[int, ...]:
        """Groups whose read was started, in order."""
        return tuple(self._issued)

    @property
    def speculative(self) -> tuple[int, ...]:
        """Groups read and then found without routes; empty until the routes are known."""
        return tuple(g for g in self._issued if self._needed is not None and g not in self._needed)

    @property
    def next_to_run(self) -> int | None:
        """The group that the executor wants next; None where there is none left or routes are unknown."""
        return self._to_run[0] if self._to_run else None

    @property
    def done(self) -> bool:
        """Routes known, every needed group executed, nothing outstanding and no bank held."""
        return self._needed is not None and not (self._to_run or self._reading or self._ready or self._running)

    def routes_known(self, needed: Iterable[int]) -> None:
        """The router has run: only ``needed`` groups have work; what isn't needed and isn't issued is skipped."""
        if self._needed is not None:
            raise RuntimeError("routes are known already")
        order = sorted(needed)
        self._needed = frozenset(order)
        self._to_run = deque(order)
        self._to_read = deque(g for g in order if g not in self._issued)

    def read_done(self, group: int) -> None:
        """All of ``group`` has arrived."""
        self._ready[group] = self._reading.pop(group)

    def run_done(self, group: int) -> int:
        """The last invocation of ``group`` has completed; its bank, now free, is returned."""
        if self._running is None or self._running[0] != group:
            raise RuntimeError(f"group {group} isn't running")
        bank = self._running[1]
        self._free.append(bank)
        self._running = None
        return bank

    def advance(self) -> list[Action]:
        """Everything that may start now; each action is taken as started."""
        actions: list[Action] = []
        if self._needed is not None:
            for group in [g for g in self._ready if g not in self._needed]:
                bank = self._ready.pop(group)
                self._free.append(bank)
                actions.append(Release(group, bank))
            if self._running is None and self._to_run and self._to_run[0] in self._ready:
                group = self._to_run.popleft()
                bank = self._ready.pop(group)
                self._running = (group, bank)
                actions.append(Run(group, bank))
        while self._may_read():
            group, bank = self._to_read.popleft(), self._free.popleft()
            self._reading[group] = bank
            self._issued.append(group)
            actions.append(Read(group, bank))
        return actions

    def _may_read(self) -> bool:
        if not (self._to_read and self._free and len(self._reading) < self._queue_depth):
            return False
        # on demand: only the group that the executor stands before, and only while it stands
        return self._policy.overlap or (self._running is None and not self._reading and not self._ready)
