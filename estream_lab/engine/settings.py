"""How an engine runs its requests."""

from dataclasses import dataclass, replace

from estream_lab.errors import EStreamError
from estream_lab.experts.executors import Executor, executor, host_profile
from estream_lab.experts.retention import KeepFirst, Retention
from estream_lab.experts.schedule import POLICIES, Schedule, policy
from estream_lab.machine import available_cpus
from estream_lab.streaming.plan import LanePlan
from estream_lab.streaming.store import Store

PUBLISHED = tuple(type(schedule) for schedule in POLICIES.values())  # they never look beyond the layer
COUNTS = ("banks", "queue_depth", "threads", "route_capacity", "chunk_tokens", "memory_budget", "vtcm_bytes")
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
        memory_budget: most bytes that the process may have resident from the engine's opening on; where neither banks
            nor arena are given, as many banks as the rest of a request leaves room for.
        threads: of the expert and dense kernels; every processor that may be used by default.
        route_capacity: C. chunk_tokens: T_max; the whole prompt by default, longer prompts run in chunks.
        read_bandwidth: a declared limit on expert reads in bytes/s.
        resident: hold all experts in memory instead of streaming.
        poison: NaN in the arena wherever no expert is ready (tests).
        executor: host or exact, or one of one's own: what evaluates the experts.
        profile: numerics profile: host-f32, host-bf16 or host-int8 of the host, by default the fastest that reads the
            store's records (`experts.executors.host_profile`); one of `kernels.profiles` of the exact executor.
        vtcm_bytes: on-chip memory of the exact executor.
        record_steps: the exact executor's steps are part of the result.
    """

    schedule: str | Schedule = "early"
    carry_over: bool = False
    retention: Retention | None = None
    check_hazards: bool = False
    group_size: int | None = None
    banks: int | None = None
    queue_depth: int | None = None
    arena_bytes: int | None = None
    memory_budget: int | None = None
    threads: int | None = None
    route_capacity: int | None = None
    chunk_tokens: int | None = None
    read_bandwidth: float | None = None
    resident: bool = False
    poison: bool = False
    executor: str | Executor = "host"
    profile: str | None = None
    vtcm_bytes: int | None = None
    record_steps: bool = False

    def complete(self, store: Store) -> "EngineSettings":
        """These settings with G, B and Q filled in and checked against the store; B stays open for a memory budget.

        Raises:
            EStreamError: values that the store can't be run with.
        """
        experts = store.spec.experts
        group = self.group_size if self.group_size is not None else min(DEFAULT_GROUP, experts)
        if not 1 <= group <= experts:
            raise EStreamError(f"a group of {group} experts is not between 1 and the layer's {experts}")
        for name in COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise EStreamError(f"{name.replace('_', ' ')} must be at least 1, not {value}")
        most = replace(self, group_size=group).most_banks(store)
        banks = self._banks(group * store.stride, group)
        usable = most if banks is None else banks
        if self.fewest_banks > usable:
            raise EStreamError(
                f"keeping {self.fewest_banks - 1} of {usable} banks leaves none to read into: keep fewer, or add banks"
            )
        queue = self.queue_depth if self.queue_depth is not None else DEFAULT_QUEUE
        chosen = replace(self, profile=self.profile or self._default_profile(store)).chosen_executor
        for record in store.classes:  # refuses what doesn't fit it, before anything is made or read
            chosen.bytes_for(record, self.route_capacity or DEFAULT_ROUTE_CAPACITY, self.threads or available_cpus())
        return replace(
            self,
            group_size=group,
            banks=banks and min(banks, most),
            queue_depth=min(queue, banks or most),
            executor=chosen,
            profile=None,
            vtcm_bytes=None,
            record_steps=False,
        )

    def _default_profile(self, store: Store) -> str | None:
        """The host's fastest arithmetic for the store's records; other executors have a default of their own."""
        return host_profile(store.layout) if self.executor == "host" else None

    @property
    def chosen_executor(self) -> Executor:
        """What evaluates the experts. Completed settings hold it, and all that was said about it.

        Raises:
            EStreamError: no such executor or profile, or something that the executor doesn't have or says itself.
        """
        if isinstance(self.executor, Executor):
            if self.profile is not None or self.vtcm_bytes is not None or self.record_steps:
                raise EStreamError("an executor of one's own has its profile, VTCM capacity and steps: leave them out")
            return self.executor
        return executor(self.executor, self.profile, self.vtcm_bytes, steps=self.record_steps)

    @property
    def fewest_banks(self) -> int:
        """The least B that a run can go on with: one bank that isn't kept."""
        return 1 + (self.retention.banks if isinstance(self.retention, KeepFirst) else 0)

    def most_banks(self, store: Store) -> int:
        """The B beyond which more banks never help, for the group size of these settings."""
        chosen = policy(self.schedule, carry_over=self.carry_over)
        return -(-store.spec.experts // (self.group_size or 1)) * self._layers_held(store, chosen)

    def _layers_held(self, store: Store, chosen: Schedule) -> int:
        """Layers whose groups may be in the arena at once: more banks than these have groups never help."""
        if self.retention is not None:
            return store.spec.layers
        return min(2, store.spec.layers) if type(chosen) not in PUBLISHED else 1

    def rows(self, tokens: int) -> int:
        """T_max for a prompt of ``tokens``: all of it, or a chunk."""
        return min(tokens, self.chunk_tokens or tokens)

    def plan(self, rows: int, top_k: int, banks: int) -> LanePlan:
        """The lane of completed settings for prompts, or chunks, of up to ``rows`` tokens; B is ``banks`` if open."""
        assert self.group_size and self.queue_depth
        banks = self.banks or banks
        return LanePlan(
            schedule=self.schedule,
            carry_over=self.carry_over,
            retention=self.retention,
            check_hazards=self.check_hazards,
            group_size=self.group_size,
            banks=banks,
            queue_depth=min(self.queue_depth, banks),
            max_tokens=rows,
            route_capacity=min(self.route_capacity or DEFAULT_ROUTE_CAPACITY, rows * top_k),
            read_bandwidth=self.read_bandwidth,
            poison=self.poison,
            executor=self.chosen_executor,
        )

    def _banks(self, bank_bytes: int, group: int) -> int | None:
        if self.arena_bytes is None:
            return self.banks or (DEFAULT_BANKS if self.memory_budget is None or self.resident else None)
        if self.banks is not None:
            raise EStreamError("give the number of banks or the arena's size, not both")
        if self.arena_bytes < bank_bytes:
            raise EStreamError(
                f"an arena of {self.arena_bytes} bytes is smaller than one group: {group} experts need {bank_bytes}"
            )
        return self.arena_bytes // bank_bytes
