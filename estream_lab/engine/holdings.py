"""What an engine holds for its requests, made as large as the longest of them needs and kept for the next."""

from dataclasses import dataclass, field

from estream_lab.engine.memory import Beforehand, Demand, MemoryPlan, banks_within, plan_memory
from estream_lab.engine.settings import EngineSettings
from estream_lab.machine import available_cpus, peak_rss_bytes, release_free_memory, rss_bytes
from estream_lab.models.layers import Decoder, KVCache
from estream_lab.models.workspace import Workspace
from estream_lab.routing import Router
from estream_lab.streaming import InProcessLane, LanePlan, Store, open_lane


@dataclass(frozen=True)
class Room:
    """Memory for prompts, or chunks, of up to ``plan.max_tokens``."""

    plan: LanePlan
    lane: InProcessLane
    work: Workspace
    router: Router


def held_before(first: bool, weights: int) -> Beforehand:
    """What the process holds now beside ``weights`` bytes of an engine's."""
    release_free_memory()
    held = rss_bytes()
    return Beforehand(max(held, peak_rss_bytes()) if first else held, held - weights)


@dataclass
class Holdings:
    """Weights, lane, workspace and KV cache of an engine; nothing is made that the memory budget has no place for.

    Attributes:
        store, settings: the model, and settings completed for it.
        first: whether this is the process's first engine, whose opening began to watch its peak.
        before: what the process held before the first request's memory was made, once that is so.
    """

    store: Store
    settings: EngineSettings
    first: bool
    before: Beforehand | None = None
    _decoder: Decoder | None = None
    _room: Room | None = field(default=None, repr=False)
    _cache: KVCache | None = field(default=None, repr=False)

    @property
    def decoder(self) -> Decoder:
        """The dense weights, once they are loaded."""
        assert self._decoder is not None
        return self._decoder

    def load(self) -> None:
        """Read the dense weights, once.

        Raises:
            EStreamError: a weight that is missing or damaged.
        """
        if self._decoder is None:
            with self.store.dense.opened() as read:
                self._decoder = Decoder(self.store.spec, read)
            release_free_memory()

    def prepare(self, demand: Demand) -> tuple[MemoryPlan, Room, KVCache]:
        """Make room for a request; what is there already serves shorter prompts as it is.

        Raises:
            EStreamError: a memory budget that is too small, before anything is read.
        """
        if self.before is None:
            self.before = held_before(self.first, self._decoder.nbytes if self._decoder else 0)
        demand, banks = self._within_budget(demand, self.before)
        memory = plan_memory(self.store, self.settings, demand, self.before, banks)
        self.load()
        rows = self.settings.rows(demand.tokens)
        if self._room is not None and self._room.plan.max_tokens < rows:
            self.close_lane()
        if self._cache is None or self._cache.capacity < demand.tokens:
            self._cache = None  # the old one goes before the new one comes
            self._cache = self.decoder.new_cache(demand.tokens)
        if self._room is None:
            release_free_memory()
            self._room = self._open(self.settings.plan(rows, self.store.spec.router.top_k, banks))
        return memory, self._room, self._cache

    def close_lane(self) -> None:
        """Free arena, activations and files."""
        room, self._room = self._room, None  # let go of even where closing fails: late reads keep the old arena alive
        if room is not None:
            room.lane.close()

    def _within_budget(self, demand: Demand, before: Beforehand) -> tuple[Demand, int]:
        """What to hold, and B: as much as is held already if that fits, else what this request needs by itself."""
        if self._room is not None:
            covering = demand.covering(self._cache.capacity if self._cache else 0)
            banks, budget = self._room.plan.banks, self.settings.memory_budget
            planned = plan_memory(self.store, self.settings, covering, before, banks)
            if budget is None or planned.peak_bytes <= budget:
                return covering, banks
        banks = banks_within(self.store, self.settings, demand, before)
        self.close_lane()
        self._cache = None
        return demand, banks

    def _open(self, plan: LanePlan) -> Room:
        lane = open_lane(self.store, plan, resident=self.settings.resident)
        threads = self.settings.threads or available_cpus()
        work = self.decoder.new_workspace(plan.max_tokens, threads, lane.x)
        return Room(plan, lane, work, Router(self.store.spec.router, plan.max_tokens))
