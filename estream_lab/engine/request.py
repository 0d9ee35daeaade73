"""One prefill under way, and what it measured."""

import hashlib
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from estream_lab import __version__
from estream_lab.engine.holdings import Holdings, Room
from estream_lab.engine.memory import MemoryPlan, Want
from estream_lab.engine.result import PrefillResult
from estream_lab.experts.schedule import CarryOver
from estream_lab.kernels import host
from estream_lab.machine import peak_rss_bytes, processor, reset_peak_rss
from estream_lab.models.layers import KVCache
from estream_lab.models.spec import ModelSpec
from estream_lab.routing import Router, Routes
from estream_lab.streaming import Completion, InProcessLane, LanePlan, Store
from estream_lab.trace import Recorder, npu_idle, storage_idle


@dataclass
class Request:
    """What one prefill gathers on its way.

    Attributes:
        ids: int32 (T,), the prompt.
        want: logits, logprobs or hidden; rows: int64 (n,), the positions of which it is wanted.
        cache: keys and values.
        token: int32 (T*k,), expert: int32 (L, T, k), weight: float32 (L, T, k): the routes of every layer, whose tokens
            are the same.
        recorder: takes the spans. completions: of each layer and chunk.
    """

    ids: NDArray[np.int32]
    want: Want
    rows: NDArray[np.int64]
    cache: KVCache
    token: NDArray[np.int32]
    expert: NDArray[np.int32]
    weight: NDArray[np.float32]
    recorder: Recorder
    completions: list[Completion] = field(default_factory=list)
    _invocations: int = 0
    _scope: str = "process"
    _start_ns: int = 0
    _end_ns: int = 0

    @classmethod
    def begin(
        cls,
        ids: NDArray[np.int32],
        want: Want,
        rows: NDArray[np.int64],
        spec: ModelSpec,
        cache: KVCache,
        lane: InProcessLane,
    ) -> "Request":
        """A request on a lane: its routes get their place, and its time starts."""
        shape = (spec.layers, len(ids), spec.router.top_k)
        token = np.repeat(np.arange(len(ids), dtype=np.int32), spec.router.top_k)
        expert, weight = np.empty(shape, np.int32), np.empty(shape, np.float32)
        request = cls(ids, want, rows, cache, token, expert, weight, Recorder(lane.name))
        request._invocations = lane.counts.invocations
        request._scope = "request" if reset_peak_rss() else "process"
        request._start_ns = time.perf_counter_ns()
        lane.start(request.recorder)
        return request

    def choose(self, router: Router, logits: NDArray[np.float32], layer: int, start: int) -> Routes:
        """Route the chunk that begins at position ``start`` by its logits (n, E); tokens count from the chunk's first.

        The routes lie in the request's own arrays.
        """
        chunk = slice(start, start + len(logits))
        expert, weight = self.expert[layer, chunk], self.weight[layer, chunk]  # (n, k)
        router.choose(logits, expert, weight)
        return Routes.over(self.token[: expert.size], expert.reshape(-1), weight.reshape(-1))

    def finish(self) -> None:
        """The output is there: the request's time ends."""
        self._end_ns = time.perf_counter_ns()
        self.recorder.add("request", "prefill", self._start_ns, self._end_ns, rows=len(self.ids))

    @property
    def seconds(self) -> float:
        """Wall time from begin to end."""
        return (self._end_ns - self._start_ns) / 1e9

    @property
    def peak_rss_scope(self) -> str:
        """Whether the peak resident set is the request's or the whole process's."""
        return self._scope

    @property
    def routes(self) -> dict[int, Routes]:
        """The routes of each layer for the whole prompt."""
        layers = zip(self.expert, self.weight, strict=True)
        return {i: Routes.over(self.token, e.reshape(-1), w.reshape(-1)) for i, (e, w) in enumerate(layers)}

    @property
    def routes_bytes(self) -> int:
        """Bytes of all routes."""
        return self.token.nbytes + self.expert.nbytes + self.weight.nbytes

    def invocations(self, lane: InProcessLane) -> int:
        """Graph invocations since the request began."""
        return lane.counts.invocations - self._invocations


def measured(
    holdings: Holdings,
    room: Room,
    request: Request,
    hidden: NDArray[np.float32],
    output: NDArray[np.float32],
    memory: MemoryPlan,
    top: list[tuple[int, str, float]],
) -> PrefillResult:
    """The result of a finished request.

    Args:
        holdings, room: what it ran with.
        request: it.
        hidden: float32 (n, H). output: float32 (n, V) or (n, H).
        memory: what was planned.
        top: the likeliest next tokens.
    """
    store, settings, lane, plan = holdings.store, holdings.settings, room.lane, room.plan
    peak = peak_rss_bytes()
    held = _held(holdings, room, request, memory, hidden.nbytes + (0 if output is hidden else output.nbytes))
    schedule = "resident" if settings.resident else plan.policies.schedule.name
    provenance = _provenance(store, lane, plan, schedule, len(request.ids))
    trace, recorded = request.recorder.trace(provenance), lane.steps
    routes = request.routes
    read = sum(completion.bytes_read for completion in request.completions)
    speculative = sum(completion.bytes_speculative for completion in request.completions)
    kept = sum(completion.bytes_kept for completion in request.completions)
    return PrefillResult(
        output=output,
        want=request.want,
        routes=routes,
        trace=trace,
        steps=recorded.trace(provenance) if recorded else None,
        tokens=len(request.ids),
        seconds=request.seconds,
        peak_rss_bytes=peak,
        peak_rss_scope=request.peak_rss_scope,
        arena_bytes=lane.arena_bytes,
        dense_bytes=held["weights"],
        kv_bytes=held["kv"],
        memory=held | {"unaccounted": peak - sum(held.values())},
        memory_planned_bytes=memory.peak_bytes,
        memory_budget_bytes=settings.memory_budget or 0,
        bytes_read=read,
        bytes_needed=read - speculative,
        bytes_speculative=speculative,
        bytes_kept=kept,
        storage_idle=storage_idle(trace),
        npu_idle=npu_idle(trace),
        active_experts=sum(len(np.unique(r.expert)) for r in routes.values()),
        total_experts=store.spec.layers * store.spec.experts,
        graph_builds=lane.counts.builds,
        invocations=request.invocations(lane),
        lane=lane.name,
        kind=str(trace.provenance["kind"]),
        machine=processor(),
        layout=store.layout,
        dense_quant=store.dense_quant,
        profile=lane.numerics_profile,
        tile_plan=_tile_plan(store, plan),
        schedule=schedule,
        carry_over=isinstance(plan.policies.schedule, CarryOver),
        retention=plan.policies.retention.name,
        non_expert="host",
        group_size=plan.group_size,
        queue_depth=plan.queue_depth,
        banks=plan.banks,
        threads=host.threads(),
        direct_io=lane.direct_io,
        fallback_reason=lane.fallback_reason,
        read_bandwidth=plan.read_bandwidth or 0.0,
        logits_sha256=hashlib.sha256(output.data).hexdigest(),
        top=top,
    )


def _held(holdings: Holdings, room: Room, request: Request, memory: MemoryPlan, ends: int) -> dict[str, int]:
    """Bytes of each part of memory at the end of a request whose hidden states and output take ``ends``."""
    return {
        "arena": room.lane.arena_bytes,
        "weights": holdings.decoder.nbytes,
        "kv": request.cache.nbytes,
        "activations": room.work.nbytes + room.lane.row_bytes + request.routes_bytes + ends,
        "kernels": room.lane.scratch_bytes + room.router.nbytes,
        "interpreter": memory.before.interpreter,
    }


def _tile_plan(store: Store, plan: LanePlan) -> dict[str, str | int | float | bool]:
    return dict(plan.executor.provenance(store.classes[0], plan.route_capacity))  # all classes have the model's sizes


def _provenance(
    store: Store, lane: InProcessLane, plan: LanePlan, schedule: str, tokens: int
) -> dict[str, str | int | float | bool]:
    return {
        "lane": lane.name,
        "kind": "measured",
        "machine": processor(),
        "model": str(store.origin.get("checkpoint", "")),
        "store_checksum": store.checksum,
        "layout": store.layout,
        "dense_quant": store.dense_quant,
        "numerics_profile": lane.numerics_profile,
        "schedule": schedule,
        "carry_over": isinstance(plan.policies.schedule, CarryOver),
        "retention": plan.policies.retention.name,
        "group_size": plan.group_size,
        "queue_depth": plan.queue_depth,
        "banks": plan.banks,
        "arena_bytes": lane.arena_bytes,
        "non_expert": "host",
        "read_bandwidth_bytes_per_second": plan.read_bandwidth or 0.0,
        "direct_io": lane.direct_io,
        "tokens": tokens,
        "threads": host.threads(),
        "version": __version__,
        **_tile_plan(store, plan),
    }
