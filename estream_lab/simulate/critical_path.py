"""The critical path of one layer: from its end back through the term that attained each maximum (paper section 6)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from estream_lab.errors import EStreamError
from estream_lab.simulate.recurrence import Timetable, recurrence

READ, BANK, NON_EXPERT, NPU, QUEUE, START = "read", "bank", "non-expert work", "NPU", "queue place", "start"
CONSTRAINTS = (READ, BANK, NON_EXPERT, NPU, QUEUE, START)
"""What something may have to wait for: its data, its bank's last consumer, T^ne, the execution before, the read that
holds its queue place; or for nothing but the layer's start."""

EXECUTION = "execution"


class Term(NamedTuple):
    """One term of a maximum: the constraint that it stands for, its symbol, and its value."""

    constraint: str
    symbol: str
    time: int


class Step(NamedTuple):
    """One stretch of the critical path.

    Attributes:
        kind: `NON_EXPERT`, `READ` or `EXECUTION`. k: place of its group in visit order, from 0; -1 for non-expert work.
        start, end: in the unit of the service times. waited_for: the constraint that set the start.
    """

    kind: str
    k: int
    start: int
    end: int
    waited_for: str


@dataclass(frozen=True)
class ScheduledLayer:
    """One layer by the literal recurrence, in any unit of time.

    Attributes:
        reads, runs: L_k and X_k in visit order, whole numbers. non_expert: T^ne.
        banks, queue_depth: b and q. schedule: one of the published three.
        names: of the groups in visit order, for people; 1, 2, … by default.
        times: a, d, s and f of each group, by `recurrence`.

    Raises:
        EStreamError: as `recurrence`, no bank or queue place, no group, or names that aren't one each.
    """

    reads: tuple[int, ...]
    runs: tuple[int, ...]
    non_expert: int
    banks: int
    queue_depth: int
    schedule: str = "early"
    names: tuple[int, ...] = ()
    times: Timetable = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.reads or min(self.banks, self.queue_depth) < 1:
            raise EStreamError(
                f"a layer of {len(self.reads)} groups with B={self.banks} and Q={self.queue_depth} has no schedule: "
                "give at least one of each"
            )
        object.__setattr__(self, "names", self.names or tuple(range(1, len(self.reads) + 1)))
        if len(self.names) != len(self.reads):
            raise EStreamError(f"{len(self.names)} names don't fit {len(self.reads)} groups: give one each, or none")
        settings = self.non_expert, self.banks, self.queue_depth, self.schedule
        object.__setattr__(self, "times", recurrence(self.reads, self.runs, *settings))

    @property
    def pipe_time(self) -> int:
        """T_pipe."""
        return self.times.f[-1]

    def in_order(self, order: Sequence[int]) -> "ScheduledLayer":
        """The same groups visited in another order: ``order`` holds places of this one, from 0."""
        reads, runs, names = (tuple(row[k] for k in order) for row in (self.reads, self.runs, self.names))
        return ScheduledLayer(reads, runs, self.non_expert, self.banks, self.queue_depth, self.schedule, names)

    def read_terms(self, k: int) -> tuple[Term, ...]:
        """What a_k is the maximum of; terms before the first group are left out, and the layer's start stands for 0."""
        start = Term(START, "0", 0)
        ready = Term(NON_EXPERT, "T", self.non_expert)
        if self.schedule == "on-demand":
            return (ready, *self._ended(NPU, k - 1))
        k_before = k - self.queue_depth
        place = (Term(QUEUE, f"d{k_before + 1}", self.times.d[k_before]),) if k_before >= 0 else ()
        waits = (ready,) if self.schedule == "after-routing" else ()
        return (start, *place, *self._ended(BANK, k - self.banks), *waits)

    def run_terms(self, k: int) -> tuple[Term, ...]:
        """What s_k is the maximum of."""
        data, ready = Term(READ, f"d{k + 1}", self.times.d[k]), Term(NON_EXPERT, "T", self.non_expert)
        return (data, ready, *self._ended(NPU, k - 1))

    @cached_property
    def path(self) -> tuple[Step, ...]:
        """The steps that T_pipe is the sum of, from the layer's start on, without a gap; of equal terms the first."""
        steps: list[Step] = []
        at: tuple[str, int] | None = (EXECUTION, len(self.reads) - 1)
        while at is not None:
            step, at = self._back(*at)
            steps.append(step)
        return tuple(reversed(steps))

    def _back(self, kind: str, k: int) -> tuple[Step, tuple[str, int] | None]:
        """A step of the path, and which one comes before it."""
        if kind == NON_EXPERT:
            return Step(kind, -1, 0, self.non_expert, START), None
        if kind == READ:
            bound = binding(self.read_terms(k))
            step = Step(kind, k, self.times.a[k], self.times.d[k], bound.constraint)
        else:
            bound = binding(self.run_terms(k))
            step = Step(kind, k, self.times.s[k], self.times.f[k], bound.constraint)
        return step, {
            START: None,
            NON_EXPERT: (NON_EXPERT, -1),
            READ: (READ, k),
            NPU: (EXECUTION, k - 1),
            BANK: (EXECUTION, k - self.banks),
            QUEUE: (READ, k - self.queue_depth),
        }[bound.constraint]

    def _ended(self, constraint: str, k: int) -> tuple[Term, ...]:
        return (Term(constraint, f"f{k + 1}", self.times.f[k]),) if k >= 0 else ()


def binding(terms: Sequence[Term]) -> Term:
    """The term that attains the maximum; of equal ones the first."""
    return max(terms, key=lambda term: term.time)
