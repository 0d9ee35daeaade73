"""How a lane is set up."""

import math
from dataclasses import dataclass

from estream_lab.experts.decide import Policies
from estream_lab.experts.executors import HOST, Executor
from estream_lab.experts.retention import Retention
from estream_lab.experts.schedule import Schedule, policy

SLOW_STORAGE = 10e6  # bytes/s; a memory card reads faster, so whoever waits longer waits in vain


@dataclass(frozen=True)
class LanePlan:
    """How a lane is set up.

    Attributes:
        schedule: on-demand, after-routing or early, or a schedule of one's own.
        group_size, banks, queue_depth: G, B and Q.
        max_tokens: T_max, rows of x and y.
        route_capacity: C.
        read_bandwidth: declared limit in bytes/s, None for none.
        poison: fill the arena with NaN before use and after each release.
        carry_over: the early schedule goes on with the next layer's groups.
        retention: what stays in its bank after it has run; None for nothing.
        check_hazards: watch every read and execution, and give the run up at a hazard.
        executor: what evaluates the experts.
    """

    schedule: str | Schedule
    group_size: int
    banks: int
    queue_depth: int
    max_tokens: int
    route_capacity: int
    read_bandwidth: float | None = None
    poison: bool = False
    carry_over: bool = False
    retention: Retention | None = None
    check_hazards: bool = False
    executor: Executor = HOST

    @property
    def policies(self) -> Policies:
        """Schedule and retention.

        Raises:
            EStreamError: no such schedule or retention, or a schedule that can't be carried over.
        """
        retention = Retention() if self.retention is None else self.retention
        return Policies(policy(self.schedule, carry_over=self.carry_over), retention)


@dataclass(frozen=True)
class WaitLimit:
    """How long the executor waits for one group before it gives up, in seconds."""

    seconds: float

    @classmethod
    def of(cls, read_bandwidth: float | None, arena_bytes: int) -> "WaitLimit":
        """30 s, and on top what a full arena takes from slow storage or at a declared bandwidth below that."""
        return cls(30.0 + arena_bytes / min(read_bandwidth or math.inf, SLOW_STORAGE))
