"""Lanes, where a layer's routed experts run: the protocol, and the in-process lane, streamed or resident."""

from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.experts.arena import Arena
from estream_lab.experts.binding import Binder, GroupedRoutes
from estream_lab.experts.graph import ExpertGraph, GraphCounts
from estream_lab.experts.hazards import HazardChecker
from estream_lab.experts.protocol import NONE, GroupKey
from estream_lab.experts.residency import ResidencyError
from estream_lab.experts.shape import RecordClass
from estream_lab.routing import Routes
from estream_lab.streaming.loader import GroupRead, Loader
from estream_lab.streaming.pipeline import Pipeline
from estream_lab.streaming.plan import LanePlan, WaitLimit
from estream_lab.streaming.store import Store
from estream_lab.trace import Recorder
from estream_lab.workers import SETTLE_SECONDS

if TYPE_CHECKING:
    from estream_lab.experts.order_steps import StepRecorder


@dataclass(frozen=True)
class Completion:
    """What running one layer took.

    Attributes:
        bytes_read: expert bytes read for the layer.
        bytes_speculative: the part of it that turned out to have no route.
        bytes_kept: of groups that had work and were in a bank from an earlier pass: they were not read.
        invocations: graph invocations.
        groups: groups that had work.
    """

    bytes_read: int
    bytes_speculative: int
    bytes_kept: int
    invocations: int
    groups: int


class Lane(Protocol):
    """A place where experts run; it owns arena, loader and residency, and allocates x, y and arena."""

    name: str
    numerics_profile: str
    x: NDArray[np.float32]  # (T_max, H)

    @property
    def arena_bytes(self) -> int:
        """Bytes of the arena."""
        ...

    @property
    def arrived_bytes(self) -> int:
        """Expert bytes read since the lane was opened; grows while a read goes on."""
        ...

    def start(self, recorder: Recorder) -> None:
        """A new request begins; its spans go to ``recorder``."""
        ...

    def begin(self, layer: int) -> None:
        """The layer's non-expert work begins; early reads may start."""
        ...

    def run(self, layer: int, x: NDArray[np.float32], routes: Routes) -> tuple[NDArray[np.float32], Completion]:
        """Run the routed experts of the layer on x (T, H); returns y (T, H), valid until the next call."""
        ...

    def abort(self) -> None:
        """Give up a layer that was begun: outstanding reads end, every bank is free; the lane can be used again.

        Raises:
            EStreamError: reads that don't end, or a policy that doesn't answer; such a lane is of no more use.
        """
        ...

    def close(self) -> None:
        """Stop all work and free everything."""
        ...


def _step_recorder() -> "StepRecorder":
    from estream_lab.experts.order_steps import StepRecorder  # who records no steps doesn't load it

    return StepRecorder()


class _InProcessLane:
    """What the streamed and the resident lane share: buffers, graphs and the invocation of one bank."""

    def __init__(self, store: Store, plan: LanePlan, arena: Arena) -> None:
        self._store, self._plan, self._arena = store, plan, arena
        self.name, self.numerics_profile = plan.executor.name, plan.executor.numerics_profile
        self.steps = _step_recorder() if plan.executor.stepped is not None else None
        self._recorder = Recorder(self.name)
        shape = (plan.max_tokens, store.spec.hidden)
        self.x: NDArray[np.float32] = np.zeros(shape, np.float32)
        self._y: NDArray[np.float32] = np.zeros(shape, np.float32)
        self.counts = GraphCounts()
        self._graphs = {record: self._build(record) for record in store.classes}
        groups = max(records.groups(plan.group_size) for records in store.layers)
        self._binder = Binder(plan.max_tokens * store.spec.router.top_k, groups, plan.group_size)

    def _build(self, record: RecordClass) -> ExpertGraph:
        plan = self._plan
        if plan.executor.stepped is not None and self.steps is not None:
            kernel = plan.executor.stepped(record, plan.route_capacity, self.steps)
        else:
            kernel = plan.executor.kernel(record, plan.route_capacity)
        return ExpertGraph(record, self._arena, kernel, plan.route_capacity, plan.max_tokens, self.counts)

    @property
    def arena_bytes(self) -> int:
        """See `Lane`."""
        return self._arena.nbytes

    @property
    def row_bytes(self) -> int:
        """Bytes of x and y."""
        return self.x.nbytes + self._y.nbytes

    @property
    def scratch_bytes(self) -> int:
        """Bytes of the temporaries of graphs and binder."""
        return sum(graph.nbytes for graph in self._graphs.values()) + self._binder.nbytes

    def start(self, recorder: Recorder) -> None:
        """See `Lane`."""
        self._recorder = recorder
        if self.steps is not None:
            self.steps.clear()

    def _invoke(
        self,
        layer: int,
        x: NDArray[np.float32],
        y: NDArray[np.float32],
        routes: Routes,
        grouped: GroupedRoutes,
        group: int,
        placement: NDArray[np.int32],
        bank: int,
    ) -> int:
        """Bind and run one group in one bank."""
        start = self._recorder.now()
        size, wanted = self._arena.group_size, grouped.of(group)
        binding = self._binder.bind(routes, placement, bank * size, size, wanted)
        if len(binding) != len(wanted):  # an expert that isn't in the bank would be left out of y without a word
            raise ResidencyError(f"bank {bank} serves {len(binding)} of group {group}'s {len(wanted)} routes")
        if self.steps is not None:
            self.steps.place(layer=layer, group=group, bank=bank)
        invocations = self._graphs[self._store.layers[layer].record].invoke(x, y, binding)
        self._recorder.add(
            "expert",
            "expert group",
            start,
            self._recorder.now(),
            layer=layer,
            group=group,
            bank=bank,
            rows=len(binding),
        )
        return invocations


class StreamingLane(_InProcessLane):
    """Experts stream through B banks under a schedule; memory is the arena's (paper sections 4 and 5).

    Args:
        store: the prepacked experts.
        plan: policies, arena and capacities.
        wait: how long a read may take before the run is given up.
    """

    def __init__(self, store: Store, plan: LanePlan, wait: WaitLimit | None = None) -> None:
        policies = plan.policies
        super().__init__(store, plan, Arena(plan.banks, plan.group_size, store.stride, poison=plan.poison))
        self._loader = Loader(store, plan.queue_depth, plan.read_bandwidth)
        self._wait = wait or WaitLimit.of(plan.read_bandwidth, plan.banks * plan.group_size * store.stride)
        self.checker = HazardChecker(plan.banks, plan.queue_depth, strict=True) if plan.check_hazards else None
        self.pipeline = Pipeline(
            store.layers, policies, self._loader, self._arena, plan.queue_depth, self._wait, self.checker
        )
        self._layer = NONE

    @property
    def arrived_bytes(self) -> int:
        """See `Lane`."""
        return self._loader.arrived_bytes

    @property
    def direct_io(self) -> bool:
        """Whether reads bypass the page cache."""
        return self._loader.direct

    @property
    def fallback_reason(self) -> str:
        """Why they don't, else empty."""
        return self._loader.fallback_reason

    def start(self, recorder: Recorder) -> None:
        """See `Lane`."""
        super().start(recorder)
        self.pipeline.start(recorder)

    def begin(self, layer: int) -> None:
        """See `Lane`."""
        if self._layer != NONE:
            raise RuntimeError("the layer before this one was not run")
        self._layer = layer
        self.pipeline.begin(layer, layer + 1 if layer + 1 < len(self._store.layers) else NONE)

    def run(self, layer: int, x: NDArray[np.float32], routes: Routes) -> tuple[NDArray[np.float32], Completion]:
        """See `Lane`.

        Raises:
            EStreamError: a read failed, or took longer than the wait limit; a policy broke a rule.
        """
        if self._layer != layer:
            raise RuntimeError(f"layer {layer} was not begun")
        pipeline, size = self.pipeline, self._plan.group_size
        records = self._store.layers[layer]
        y = self._y[: len(x)]
        y.fill(0)
        grouped = self._binder.group(routes, records.group_of(size), records.groups(size))
        invocations, kept = 0, 0
        try:
            pipeline.routes_known(layer, {group: len(grouped.of(group)) for group in grouped.needed})
            while (ready := pipeline.next_ready()) is not None:
                group, bank = ready
                placement = pipeline.residency.placement(layer)
                kept += 0 if pipeline.was_read(GroupKey(layer, group)) else records.group_bytes(group, size)
                pipeline.executing(GroupKey(layer, group), bank)
                invocations += self._invoke(layer, x, y, routes, grouped, group, placement, bank)
                pipeline.run_done(bank)
            read, speculative = pipeline.end(layer)
        except BaseException:
            with suppress(EStreamError):  # reads that don't end; what went wrong first is what is told
                self.abort()
            raise
        self._layer = NONE
        return y, Completion(read, speculative, kept, invocations, len(grouped.needed))

    def abort(self) -> None:
        """See `Lane`; groups that were kept are given up, too."""
        if self._layer == NONE and self.pipeline.idle:
            return
        self.pipeline.give_up()
        self._loader.settle(min(self._wait.seconds, SETTLE_SECONDS))
        self.pipeline.rest()
        self._layer = NONE
        for bank in range(self._plan.banks):
            self._arena.release(bank)

    def close(self) -> None:
        """See `Lane`; reads that don't end are left to themselves, with the arena that they write to."""
        with suppress(EStreamError):
            self.abort()
        self._loader.close()


class ResidentLane(_InProcessLane):
    """Every expert of every layer in memory from the start: the run that streaming is compared with.

    Groups keep their meaning as visit order only, so that logits stay bit-identical to the streamed lane's.
    """

    def __init__(self, store: Store, plan: LanePlan) -> None:
        groups = [records.groups(plan.group_size) for records in store.layers]
        *self._banks, total = accumulate(groups, initial=0)  # first bank of each layer, and how many there are
        super().__init__(store, plan, Arena(total, plan.group_size, store.stride, poison=plan.poison))
        loader = Loader(store, plan.queue_depth, plan.read_bandwidth)
        try:
            self.direct_io, self.fallback_reason = loader.direct, loader.fallback_reason
            self._placement = [self._load(loader, layer) for layer in range(store.spec.layers)]
        finally:
            loader.close()

    def _load(self, loader: Loader, layer: int) -> NDArray[np.int32]:
        records, size = self._store.layers[layer], self._plan.group_size
        placement = np.full(self._store.spec.experts, -1, np.int32)
        reads = []
        for group in range(records.groups(size)):
            bank, experts = self._banks[layer] + group, records.group_experts(group, size)
            views = self._arena.bank_view(bank, len(experts), records.record.stride)
            reads.append(loader.submit(GroupRead(layer, group, size, views)))
            placement[experts] = np.arange(bank * size, bank * size + len(experts), dtype=np.int32)
        for group, read in enumerate(reads):
            loader.wait(read, str(GroupKey(layer, group)))
        return placement

    @property
    def arrived_bytes(self) -> int:
        """See `Lane`: all of them, from the start."""
        return self._arena.nbytes

    def begin(self, layer: int) -> None:
        """See `Lane`; there is nothing to read."""

    def run(self, layer: int, x: NDArray[np.float32], routes: Routes) -> tuple[NDArray[np.float32], Completion]:
        """See `Lane`."""
        records, size = self._store.layers[layer], self._plan.group_size
        y = self._y[: len(x)]
        y.fill(0)
        grouped = self._binder.group(routes, records.group_of(size), records.groups(size))
        invocations = 0
        for group in grouped.needed:
            bank = self._banks[layer] + group
            invocations += self._invoke(layer, x, y, routes, grouped, group, self._placement[layer], bank)
        return y, Completion(0, 0, 0, invocations, len(grouped.needed))

    def abort(self) -> None:
        """See `Lane`; nothing is under way between calls."""

    def close(self) -> None:
        """See `Lane`; the arena goes with the lane."""


InProcessLane = StreamingLane | ResidentLane


def open_lane(store: Store, plan: LanePlan, *, resident: bool) -> InProcessLane:
    """The in-process lane of ``plan``.

    Raises:
        EStreamError: a group size, bank count or queue depth that the store can't be run with.
    """
    if not 1 <= plan.group_size <= store.spec.experts:
        raise EStreamError(
            f"a group of {plan.group_size} experts is not between 1 and the layer's {store.spec.experts}"
        )
    return ResidentLane(store, plan) if resident else StreamingLane(store, plan)
