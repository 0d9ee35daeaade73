"""How an engine runs its requests."""

from dataclasses import dataclass, replace

from estream_lab.errors import EStreamError
from estream_lab.experts.retention import Retention
from estream_lab.experts.schedule import Schedule, policy
from estream_lab.streaming.plan import LanePlan
from estream_lab.streaming.store import Store

DEFAULT_GROUP, DEFAULT_BANKS, DEFAULT_QUEUE = 8, 3, 2
DEFAULT_ROUTE_CAPACITY = 2048  # routes of one invocation; more are split, and results don't depend on it


@dataclass(frozen=True)
class EngineSettings:
    """How requests run; what is None follows from the store or the prompt.

    Attributes:
        schedule: on-demand, after-routing or early, or a schedule of one's own.
        carry_over: the early schedule goes on with the next layer's groups.
        retention: what stays in its bank for later requests; None for nothing.
        check_hazards: watch every read and execution, and give the run up at a hazard.
        group_size, banks, queue_depth: G, B and Q.
        arena_bytes: instead of ``banks``: as many banks as fit.
        threads: of the expert and dense kernels; every processor that may be used by default.
        route_capacity: C. chunk_tokens: T_max; the whole prompt by default, longer prompts run in chunks.
        read_bandwidth: a declared limit on expert reads in bytes/s.
        resident: hold all experts in memory instead of streaming.
        poison: NaN in the arena wherever no expert is ready (tests).
    """

    schedule: str | Schedule = "early"
    carry_over: bool = False
    retention: Retention | None = None
    check_hazards: bool = False
    group_size: int | None = None
    banks: int | None = None
    queue_depth: int | None = None
    arena_bytes: int | None = None
    threads: int | None = None
    route_capacity: int | None = None
    chunk_tokens: int | None = None
    read_bandwidth: float | None = None
    resident: bool = False
    poison: bool = False

    def complete(self, store: Store) -> "EngineSettings":
        """These settings with G, B and Q filled in and checked against the store.

        Raises:
            EStreamError: values that the store can't be run with.
        """
        experts = store.spec.experts
        group = self.group_size if self.group_size is not None else min(DEFAULT_GROUP, experts)
        if not 1 <= group <= experts:
            raise EStreamError(f"a group of {group} experts is not between 1 and the layer's {experts}")
        for name in ("banks", "queue_depth", "threads", "route_capacity", "chunk_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise EStreamError(f"{name.replace('_', ' ')} must be at least 1, not {value}")
        policy(self.schedule, carry_over=self.carry_over)
        most = -(-experts // group)  # more banks than groups never help
        banks = min(self._banks(group * store.stride, group), most)
        queue = min(self.queue_depth if self.queue_depth is not None else DEFAULT_QUEUE, banks)
        return replace(self, group_size=group, banks=banks, queue_depth=queue)

    def plan(self, rows: int, top_k: int) -> LanePlan:
        """The lane of completed settings for prompts, or chunks, of up to ``rows`` tokens."""
        assert self.group_size and self.banks and self.queue_depth
        return LanePlan(
            schedule=self.schedule,
            carry_over=self.carry_over,
            retention=self.retention,
            check_hazards=self.check_hazards,
            group_size=self.group_size,
            banks=self.banks,
            queue_depth=self.queue_depth,
            max_tokens=rows,
            route_capacity=min(self.route_capacity or DEFAULT_ROUTE_CAPACITY, rows * top_k),
            read_bandwidth=self.read_bandwidth,
            poison=self.poison,
        )

    def _banks(self, bank_bytes: int, group: int) -> int:
        if self.arena_bytes is None:
            return self.banks if self.banks is not None else DEFAULT_BANKS
        if self.banks is not None:
            raise EStreamError("give the number of banks or the arena's size, not both")
        if self.arena_bytes < bank_bytes:
            raise EStreamError(
                f"an arena of {self.arena_bytes} bytes is smaller than one group: {group} experts need {bank_bytes}"
            )
        return self.arena_bytes // bank_bytes
