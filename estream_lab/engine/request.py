"""One prefill under way, and what it measured."""

import hashlib
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from estream_lab import __version__
from estream_lab.engine.result import PrefillResult
from estream_lab.engine.settings import EngineSettings
from estream_lab.kernels import host
from estream_lab.machine import peak_rss_bytes, processor, reset_peak_rss
from estream_lab.models.layers import KVCache
from estream_lab.routing import Routes
from estream_lab.streaming import Completion, InProcessLane, LanePlan, Store
from estream_lab.trace import Recorder, npu_idle, storage_idle


@dataclass
class Request:
    """What one prefill gathers on its way.

    Attributes:
        ids: int32 (T,), the prompt.
        want: logits, logprobs or hidden; rows: int64 (n,), the positions of which it is wanted.
        recorder: takes the spans. cache: keys and values.
        invocations_before: of the lane's graphs, when the request began.
    """

    ids: NDArray[np.int32]
    want: str
    rows: NDArray[np.int64]
    recorder: Recorder
    cache: KVCache
    invocations_before: int
    completions: list[Completion] = field(default_factory=list)
    _routes: dict[int, list[Routes]] = field(default_factory=dict)
    _scope: str = field(default_factory=lambda: "request" if reset_peak_rss() else "process")
    _start_ns: int = field(default_factory=time.perf_counter_ns)
    _end_ns: int = 0

    def add(self, layer: int, start: int, routes: Routes, completion: Completion) -> None:
        """A layer of the chunk that begins at position ``start`` is done."""
        shifted = Routes(routes.token + np.int32(start), routes.expert, routes.weight)
        self._routes.setdefault(layer, []).append(shifted)
        self.completions.append(completion)

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
        return {layer: _join(parts) for layer, parts in self._routes.items()}


def measured(
    store: Store,
    settings: EngineSettings,
    lane: InProcessLane,
    plan: LanePlan,
    request: Request,
    output: NDArray[np.float32],
    dense_bytes: int,
    top: list[tuple[int, str, float]],
) -> PrefillResult:
    """The result of a finished request; output is float32 (n, V) or (n, H)."""
    schedule = "resident" if settings.resident else plan.policies.schedule.name
    trace = request.recorder.trace(_provenance(store, lane, plan, schedule, len(request.ids)))
    routes = request.routes
    read = sum(completion.bytes_read for completion in request.completions)
    speculative = sum(completion.bytes_speculative for completion in request.completions)
    kept = sum(completion.bytes_kept for completion in request.completions)
    return PrefillResult(
        output=output,
        want=request.want,
        routes=routes,
        trace=trace,
        tokens=len(request.ids),
        seconds=request.seconds,
        peak_rss_bytes=peak_rss_bytes(),
        peak_rss_scope=request.peak_rss_scope,
        arena_bytes=lane.arena_bytes,
        dense_bytes=dense_bytes,
        kv_bytes=request.cache.nbytes,
        bytes_read=read,
        bytes_needed=read - speculative,
        bytes_speculative=speculative,
        bytes_kept=kept,
        storage_idle=storage_idle(trace),
        npu_idle=npu_idle(trace),
        active_experts=sum(len(np.unique(r.expert)) for r in routes.values()),
        total_experts=store.spec.layers * store.spec.experts,
        graph_builds=lane.counts.builds,
        invocations=lane.counts.invocations - request.invocations_before,
        lane=lane.name,
        kind=str(trace.provenance["kind"]),
        machine=processor(),
        layout=store.layout,
        profile=lane.numerics_profile,
        schedule=schedule,
        carry_over=plan.carry_over,
        retention=plan.policies.retention.name,
        non_expert="host",
        group_size=plan.group_size,
        queue_depth=plan.queue_depth,
        banks=plan.banks,
        threads=host.threads(),
        direct_io=lane.direct_io,
        fallback_reason=lane.fallback_reason,
        read_bandwidth=plan.read_bandwidth or 0.0,
        logits_sha256=hashlib.sha256(output.tobytes()).hexdigest(),
        top=top,
    )


def _provenance(
    store: Store, lane: InProcessLane, plan: LanePlan, schedule: str, tokens: int
) -> dict[str, str | int | float | bool]:
    return {
        "lane": lane.name,
        "kind": "measured",
        "machine": processor(),
        "cpu": processor(),
        "model": str(store.origin.get("checkpoint", "")),
        "store_checksum": store.checksum,
        "layout": store.layout,
        "numerics_profile": lane.numerics_profile,
        "schedule": schedule,
        "carry_over": plan.carry_over,
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
    }


def _join(parts: list[Routes]) -> Routes:
    """Routes of consecutive chunks as those of the whole prompt."""
    return Routes(
        np.concatenate([part.token for part in parts]),
        np.concatenate([part.expert for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )
