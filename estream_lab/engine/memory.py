"""What a request will hold in memory, part by part, before any of it is taken (system description, section 6)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from estream_lab.engine.head import softmax_bytes
from estream_lab.engine.settings import EngineSettings
from estream_lab.errors import EStreamError
from estream_lab.experts import Binder
from estream_lab.machine import available_cpus
from estream_lab.models.dense import dense_memory, scratch_sizes
from estream_lab.models.layers import KVCache
from estream_lab.models.workspace import Workspace
from estream_lab.routing import Router
from estream_lab.streaming import LanePlan, Store

Want = Literal["logits", "logprobs", "hidden"]

MIB = 1 << 20

READ_BYTES = 6 * MIB  # reading a dense tensor: a piece of 4 MiB as stored, and a byte a value of it to check it
RESERVE_BYTES = 10 * MIB  # pages of libraries that are first used after the engine opened, the allocator's slack
THREAD_BYTES = 256 << 10  # stack and allocator arena of a thread, as touched; one runs the request
SPAN_BYTES = 512  # a span of the trace
SMALLEST_CHUNK = 16  # tokens; shorter ones read every expert again for next to nothing
RERUN_BYTES = 2 * MIB  # by so much the interpreter's part may differ in the next process


@dataclass(frozen=True)
class Demand:
    """What a request asks for.

    Attributes:
        tokens: T, the prompt's.
        outputs: n, rows of the output.
        want: logits, logprobs or hidden.
    """

    tokens: int
    outputs: int
    want: Want

    def covering(self, tokens: int) -> "Demand":
        """The same for a prompt of at least ``tokens``."""
        return replace(self, tokens=max(self.tokens, tokens))


@dataclass(frozen=True)
class Beforehand:
    """What the process held before any memory was made for requests, in bytes.

    Attributes:
        peak: the most until then, since its first engine began to open; it cannot be undone.
        interpreter: Python, libraries, compiled kernels, and the caller's own; without the engine's weights.
    """

    peak: int
    interpreter: int


@dataclass(frozen=True)
class MemoryPlan:
    """Bytes of every part of a request.

    Attributes:
        before: what there was already.
        weights: dense weights as held. loading: on top of it while they are read and packed.
        kv: keys and values, and the rotary tables. tables: on top of it while these are made.
        activations: workspace, the lane's x and y, routes, hidden states and output.
        kernels: temporaries of expert kernel, binder and router.
        reserve: threads, the trace, and what no part knows of.
        arena: B * G * stride.
    """

    before: Beforehand
    weights: int
    loading: int
    kv: int
    tables: int
    activations: int
    kernels: int
    reserve: int
    arena: int

    @property
    def other_bytes(self) -> int:
        """M_other: everything but the arena."""
        return self.before.interpreter + self.weights + self.kv + self.activations + self.kernels + self.reserve

    @property
    def peak_bytes(self) -> int:
        """The most that the process will hold, whatever it is doing."""
        base = self.before.interpreter + self.weights + self.reserve
        return max(self.before.peak, base + self.loading, base + self.kv + self.tables, self.other_bytes + self.arena)


def most_banks(budget: int, other: int, bank_bytes: int, groups: int) -> int:
    """B_max = min(ceil(E / G), floor((M - M_other) / (G * W_e))); below 1 the group size doesn't fit (section 6).

    Args:
        budget: M, inclusive. other: M_other. bank_bytes: G * W_e with padding.
        groups: ceil(E / G), of every layer whose groups may be in the arena at once.
    """
    return min(groups, (budget - other) // bank_bytes)


def plan_memory(store: Store, settings: EngineSettings, demand: Demand, before: Beforehand, banks: int) -> MemoryPlan:
    """Every part's bytes for a request.

    Args:
        store: the model.
        settings: completed for the store.
        demand: the request.
        before: what the process holds already.
        banks: B, where the settings leave it open.
    """
    spec, lane = store.spec, settings.plan(settings.rows(demand.tokens), store.spec.router.top_k, banks)
    threads = settings.threads or available_cpus()
    held, most = dense_memory(spec, store.dense.kinds)
    sizes = [math.prod(shape) for shape in spec.dense_shapes().values()]
    arrays = len(sizes) + 2 * spec.layers
    chunks = -(-demand.tokens // lane.max_tokens)
    spans = chunks * (sum(4 + 4 * layer.groups(lane.group_size) for layer in store.layers) + _steps(store, lane))
    return MemoryPlan(
        before=before,
        weights=held,
        loading=most - held + min(READ_BYTES, 5 * max(sizes)),
        kv=KVCache.bytes_for(spec, demand.tokens),
        tables=demand.tokens * spec.head_dim * 12,  # angles and their cosines in float64
        activations=_activations(store, lane.max_tokens, threads, demand),
        kernels=_kernels(store, lane, threads),
        reserve=RESERVE_BYTES
        + THREAD_BYTES * (1 + threads + (settings.queue_depth or 1))
        + SPAN_BYTES * spans
        + 4096 * arrays,
        arena=_arena(store, settings, lane),
    )


def banks_within(store: Store, settings: EngineSettings, demand: Demand, before: Beforehand) -> int:
    """B for a request: what the settings say, else as many banks as the memory budget has a place for.

    Raises:
        EStreamError: the budget is too small; the sentence names the least that works.
    """
    budget = settings.memory_budget
    if budget is None:
        return settings.banks or 1
    least = plan_memory(store, settings, demand, before, settings.fewest_banks)
    if least.peak_bytes > budget:
        raise EStreamError(_refusal(store, settings, demand, before))
    if settings.banks is not None:
        return settings.banks
    bank_bytes = (settings.group_size or 1) * store.stride
    return most_banks(budget, least.other_bytes, bank_bytes, settings.most_banks(store))


def least_budget(store: Store, settings: EngineSettings, demand: Demand, before: Beforehand) -> int:
    """A memory budget that works in a process like this one: whole MiB, with the fewest banks where B is open."""
    needed = plan_memory(store, settings, demand, before, settings.fewest_banks).peak_bytes
    return -(-(needed + RERUN_BYTES) // MIB) * MIB


def _refusal(store: Store, settings: EngineSettings, demand: Demand, before: Beforehand) -> str:
    budget, rows = settings.memory_budget or 0, settings.rows(demand.tokens)
    least = least_budget(store, settings, demand, before)
    text = f"a memory budget of {budget / MIB:.1f} MiB is too small for {_several(demand.tokens, 'token')}"
    text += "" if settings.resident else f" in groups of {_several(settings.group_size or 1, 'expert')}"
    text += f": the least that works is {least // MIB}MiB"
    for smaller, what in _smaller(settings, rows):
        if least_budget(store, smaller, demand, before) <= budget:
            return f"{text}; {what} would fit"
    return text


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _smaller(settings: EngineSettings, rows: int) -> Iterator[tuple[EngineSettings, str]]:
    """Settings that need less, and what is different in them; the least different first."""
    if settings.resident:
        settings = replace(settings, resident=False, banks=None)
        yield settings, "streamed experts"
    group = settings.group_size or 1
    groups = [group >> i for i in range(1, group.bit_length())]
    chunks = [rows >> i for i in range(1, rows.bit_length() - SMALLEST_CHUNK.bit_length() + 1)]
    for size in groups:
        yield replace(settings, group_size=size), f"groups of {size}"
    for chunk in chunks:
        yield replace(settings, chunk_tokens=chunk), f"chunks of {chunk} tokens"
    if groups and chunks:
        smallest = replace(settings, group_size=groups[-1], chunk_tokens=chunks[-1])
        yield smallest, f"groups of {groups[-1]} and chunks of {chunks[-1]} tokens"


def _activations(store: Store, rows: int, threads: int, demand: Demand) -> int:
    spec = store.spec
    lane = 2 * 4 * rows * spec.hidden  # x and y
    routes = (8 * spec.layers + 4) * demand.tokens * spec.router.top_k
    hidden = 2 * 4 * demand.outputs * spec.hidden  # and the rows that are picked for it
    logits = 0 if demand.want == "hidden" else 4 * demand.outputs * spec.vocab
    top = 16 * spec.vocab + (4 * spec.vocab if demand.want == "hidden" else 0)  # the likeliest next tokens
    softmax = softmax_bytes(demand.outputs if demand.want == "logprobs" else 1, spec.vocab)
    ends = softmax + top + 32 * demand.tokens  # and the prompt's ids
    work = Workspace.bytes_for(spec, rows, threads, scratch_sizes(spec, store.dense.kinds))
    return work + lane + routes + hidden + logits + ends


def _kernels(store: Store, lane: LanePlan, threads: int) -> int:
    spec = store.spec
    scratch = sum(lane.executor.bytes_for(record, lane.route_capacity, threads) for record in store.classes)
    groups = max(layer.groups(lane.group_size) for layer in store.layers)
    binder = Binder.bytes_for(lane.max_tokens * spec.router.top_k, groups, lane.group_size)
    return scratch + binder + Router.bytes_for(spec.experts, lane.max_tokens)


def _steps(store: Store, lane: LanePlan) -> int:
    """Steps of a chunk that the executor may record."""
    if lane.executor.most_steps is None:
        return 0
    experts, routes = store.spec.experts, lane.max_tokens * store.spec.router.top_k
    slots = experts + routes // lane.route_capacity  # a slot that is split at C comes twice
    return sum(lane.executor.most_steps(layer.record, lane.route_capacity, slots, routes) for layer in store.layers)


def _arena(store: Store, settings: EngineSettings, lane: LanePlan) -> int:
    groups = sum(layer.groups(lane.group_size) for layer in store.layers)
    return (groups if settings.resident else lane.banks) * lane.group_size * store.stride
