"""What a prefill gives back: the output and every figure measured on the way."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.routing import Routes
from estream_lab.trace import Trace


@dataclass(frozen=True)
class PrefillResult:
    """Output and measurements of one prefill.

    Attributes:
        output: float32 (n, V) logits or log-probabilities, or (n, H) final hidden states, of the asked positions.
        want: which of the three it is.
        routes: of each layer, for the whole prompt.
        trace: the request's spans.
        steps: those of the exact executor on the clock `order`, where they were recorded.
        tokens: prompt length T; seconds: wall time.
        peak_rss_bytes: highest resident set of the process during the request (``peak_rss_scope`` says "request", or
            "process" where the system can't tell).
        memory: bytes of each part of that peak: arena, weights, kv, activations, kernels, interpreter (what the process
            held before the engine's first request, without its weights), and unaccounted, the rest. That is below 0
            where a part was not all touched, such as a bank that nothing was read into.
        memory_planned_bytes: the peak as foretold from shapes alone. memory_budget_bytes: its limit, 0 for none.
        arena_bytes, dense_bytes, kv_bytes: memory of the expert arena, of resident non-expert weights, of the KV cache.
        bytes_read: expert bytes read = bytes_needed + bytes_speculative (read early, then found without routes).
        bytes_kept: expert bytes that were in a bank from an earlier request or chunk, and so weren't read.
        layout: of the experts. dense_quant: of attention's projections, embedding and head: q8_0 or q4_0, else the
            checkpoint's f32, f16 or bf16; joined where they differ.
        tile_plan: VTCM and tiles that the exact executor ran with, as in the trace's provenance; empty for others.
        schedule, carry_over, retention: the policies.
        storage_idle, npu_idle: shares of the request's time, 0 to 1 (on this CPU lane npu_idle is compute idle).
        active_experts: experts with at least one route, counted per layer and summed.
        graph_builds, invocations: of the expert graph.
        kind: measured, emulated or simulated, as the trace's provenance says.
        direct_io: whether expert reads bypass the page cache; fallback_reason: why they don't, else empty.
        read_bandwidth: the declared limit in bytes/s, 0 for none.
        logits_sha256: of the output's bytes.
        top: (id, text, log-probability) of the five likeliest next tokens after the last of the asked positions.
    """

    output: NDArray[np.float32] = field(repr=False)
    want: str
    routes: dict[int, Routes] = field(repr=False)
    trace: Trace = field(repr=False)
    steps: Trace | None = field(repr=False)
    tokens: int
    seconds: float
    peak_rss_bytes: int
    peak_rss_scope: str
    arena_bytes: int
    dense_bytes: int
    kv_bytes: int
    memory: dict[str, int]
    memory_planned_bytes: int
    memory_budget_bytes: int
    bytes_read: int
    bytes_needed: int
    bytes_speculative: int
    bytes_kept: int
    storage_idle: float
    npu_idle: float
    active_experts: int
    total_experts: int
    graph_builds: int
    invocations: int
    lane: str
    kind: str
    machine: str
    layout: str
    dense_quant: str
    profile: str
    tile_plan: dict[str, str | int | float | bool]
    schedule: str
    carry_over: bool
    retention: str
    non_expert: str
    group_size: int
    queue_depth: int
    banks: int
    threads: int
    direct_io: bool
    fallback_reason: str
    read_bandwidth: float
    logits_sha256: str
    top: list[tuple[int, str, float]]

    @property
    def tokens_per_second(self) -> float:
        """Prompt tokens a second."""
        return self.tokens / self.seconds

    def to_json(self) -> dict[str, Any]:
        """Plain types; everything but the arrays, the routes and the trace."""
        skip = {"output", "routes", "trace", "steps"}
        plain = {k: getattr(self, k) for k in self.__dataclass_fields__ if k not in skip}
        return plain | {"tokens_per_second": self.tokens_per_second, "top": [list(t) for t in self.top]}
