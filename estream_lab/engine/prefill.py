"""`PrefillEngine`: tokens in, logits or hidden states out, with a trace and measured figures."""

import hashlib
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from estream_lab import __version__
from estream_lab.engine.result import PrefillResult
from estream_lab.engine.settings import DEFAULT_ROUTE_CAPACITY, EngineSettings
from estream_lab.errors import EStreamError
from estream_lab.kernels import host
from estream_lab.machine import available_cpus, peak_rss_bytes, processor, reset_peak_rss
from estream_lab.models.layers import Decoder, KVCache
from estream_lab.models.tokenizer import Tokenizer
from estream_lab.routing import Routes, route
from estream_lab.streaming import Completion, LanePlan, Store, open_lane
from estream_lab.trace import Recorder, npu_idle, storage_idle

Want = Literal["logits", "logprobs", "hidden"]
Positions = Literal["last", "all"] | Sequence[int]

TOP = 5


class PrefillEngine:
    """Prefill of one store's model; the experts run in a lane, everything else on this computer.

    Use `open`, and close it or use it as a context manager. One request runs at a time.
    """

    def __init__(self, store: Store, settings: EngineSettings) -> None:
        self.store, self.spec = store, store.spec
        self.settings = settings.complete(store)
        self.tokenizer = Tokenizer.from_json(store.tokenizer_json) if store.tokenizer_json else None
        host.set_threads(self.settings.threads or available_cpus())
        with store.dense_reader() as read:
            self._decoder = Decoder(store.spec, read)
        self._busy = threading.Lock()
        self._lane: Any = None
        self._plan: LanePlan | None = None

    @classmethod
    def open(cls, store: str | os.PathLike[str] | Store, **settings: Any) -> Self:
        """Open a store for prefill.

        Args:
            store: path of a ``NAME.estream`` folder, or an opened store.
            settings: see `EngineSettings`.

        Raises:
            EStreamError: a store that can't be used, or settings that it can't be run with.
        """
        opened = store if isinstance(store, Store) else Store(Path(store))
        return cls(opened, EngineSettings(**settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free arena and files."""
        lane, self._lane = self._lane, None  # let go of even where closing fails: late reads keep the old arena alive
        if lane is not None:
            lane.close()

    def prefill(
        self,
        tokens: Sequence[int] | NDArray[np.int32],
        want: Want = "logits",
        positions: Positions = "last",
        *,
        progress: bool = False,
    ) -> PrefillResult:
        """Push a prompt through the model once.

        Args:
            tokens: (T,) ids, 1 <= T <= the model's context.
            want: next-token logits, their log-softmax, or the final normed hidden states.
            positions: which rows of the output: the last, all, or these indices.
            progress: show a bar on standard error, a step a layer of each chunk.

        Returns:
            Output float32 (n, V) or (n, H) with routes, trace and figures.

        Raises:
            EStreamError: an empty prompt, ids outside the vocabulary, more tokens than the context, storage that fails
                during the run, or a request of another thread that is still running.
        """
        ids = self._check(tokens)
        rows = _rows(positions, len(ids))
        if want not in get_args(Want):
            raise EStreamError(f"a prefill gives {', '.join(get_args(Want))}, not '{want}'")
        if not self._busy.acquire(blocking=False):
            raise EStreamError("this engine runs another thread's request: open one engine a thread")
        try:
            return self._run(ids, want, rows, progress)
        except BaseException:
            self.close()  # the next request opens a lane of its own, whatever state this one was left in
            raise
        finally:
            self._busy.release()

    def _run(self, ids: NDArray[np.int32], want: Want, rows: NDArray[np.int64], progress: bool) -> PrefillResult:
        """One request, checked: ids (T,), rows (n,) of the output."""
        self._prepare(len(ids))
        scope = "request" if reset_peak_rss() else "process"
        lane, plan = self._lane, self._plan
        assert plan is not None
        recorder = Recorder(lane.name)
        lane.start(recorder)
        cache = self._decoder.new_cache(len(ids))
        host.set_threads(self.settings.threads or available_cpus())
        begun = (lane.counts.invocations, time.perf_counter_ns())
        routes: dict[int, list[Routes]] = {layer: [] for layer in range(self.spec.layers)}
        completions: list[Completion] = []
        hidden = np.empty((len(rows), self.spec.hidden), np.float32)  # (n, H)
        starts = range(0, len(ids), plan.max_tokens)
        steps = len(starts) * self.spec.layers
        with tqdm(total=steps, unit="layer", desc="prefill", leave=False, delay=1, disable=not progress) as bar:
            for start in starts:
                chunk = ids[start : start + plan.max_tokens]
                x = self._layers(chunk, start, cache, recorder, routes, completions, bar)
                inside = (rows >= start) & (rows < start + len(chunk))
                hidden[inside] = self._decoder.norm(x[rows[inside] - start])
            with recorder.span("dense", "head"):
                output = self._output(hidden, want)
        end = time.perf_counter_ns()
        recorder.add("request", "prefill", begun[1], end, rows=len(ids))
        merged = {layer: _join(parts, plan.max_tokens) for layer, parts in routes.items()}
        return self._result(
            ids,
            want,
            output,
            hidden,
            merged,
            completions,
            recorder,
            cache,
            end - begun[1],
            lane.counts.invocations - begun[0],
            scope,
        )

    def _layers(
        self,
        chunk: NDArray[np.int32],
        start: int,
        cache: KVCache,
        recorder: Recorder,
        routes: dict[int, list[Routes]],
        completions: list[Completion],
        bar: "tqdm[Any]",
    ) -> NDArray[np.float32]:
        """All layers for one chunk of tokens: (T, H) before the final norm."""
        lane = self._lane
        with recorder.span("dense", "embedding"):
            x = self._decoder.embed(chunk)  # (T, H)
        for layer in range(self.spec.layers):
            lane.begin(layer)
            with recorder.span("dense", "attention", layer=layer, rows=len(chunk)):
                residual, normed, logits = self._decoder.attend(layer, x, cache, start)  # (T, H), (T, H), (T, E)
            with recorder.span("dense", "router", layer=layer, rows=len(chunk)):
                layer_routes = route(logits, self.spec.router)
                lane.x[: len(chunk)] = normed
            routes[layer].append(layer_routes)
            y, completion = lane.run(layer, lane.x[: len(chunk)], layer_routes)  # (T, H)
            completions.append(completion)
            x = residual + y
            bar.update()
        return x

    def _output(self, hidden: NDArray[np.float32], want: Want) -> NDArray[np.float32]:
        if want == "hidden":
            return hidden
        logits = self._decoder.logits(hidden)  # (n, V)
        return log_softmax(logits) if want == "logprobs" else logits

    def _check(self, tokens: Sequence[int] | NDArray[np.int32]) -> NDArray[np.int32]:
        ids = np.asarray(tokens)
        if not ids.size:
            raise EStreamError("the prompt is empty: give at least one token")
        if ids.ndim != 1:
            raise EStreamError(f"token ids must be one row, not an array of shape {ids.shape}")
        if not np.issubdtype(ids.dtype, np.integer):
            raise EStreamError(f"token ids must be whole numbers, not {ids.dtype}")
        outside = np.flatnonzero((ids < 0) | (ids >= self.spec.vocab))
        if len(outside):
            raise EStreamError(
                f"token {int(ids[outside[0]])} at position {outside[0]} is outside the vocabulary of {self.spec.vocab}"
            )
        if len(ids) > self.spec.context:
            raise EStreamError(
                f"the prompt has {len(ids)} tokens and the model's context is {self.spec.context}: shorten it"
            )
        return ids.astype(np.int32)

    def _prepare(self, tokens: int) -> None:
        """Open the lane, or a larger one where this prompt needs more rows; a lane serves shorter prompts as it is."""
        settings = self.settings
        rows = min(tokens, settings.chunk_tokens or tokens)
        if self._lane is not None and self._plan is not None and rows <= self._plan.max_tokens:
            return
        assert settings.group_size and settings.banks and settings.queue_depth
        capacity = settings.route_capacity or min(rows * self.spec.router.top_k, DEFAULT_ROUTE_CAPACITY)
        plan = LanePlan(
            settings.schedule,
            settings.group_size,
            settings.banks,
            settings.queue_depth,
            rows,
            capacity,
            settings.read_bandwidth,
            settings.poison,
        )
        self.close()
        self._lane, self._plan = open_lane(self.store, plan, resident=settings.resident), plan

    def _result(
        self,
        ids: NDArray[np.int32],
        want: Want,
        output: NDArray[np.float32],
        hidden: NDArray[np.float32],
        routes: dict[int, Routes],
        completions: list[Completion],
        recorder: Recorder,
        cache: KVCache,
        elapsed_ns: int,
        invocations: int,
        scope: str,
    ) -> PrefillResult:
        lane, plan = self._lane, self._plan
        assert plan is not None
        schedule = "resident" if self.settings.resident else plan.schedule
        read = sum(c.bytes_read for c in completions)
        speculative = sum(c.bytes_speculative for c in completions)
        trace = recorder.trace(self._provenance(len(ids), schedule))
        final = self._output(hidden[-1:], "logprobs") if want == "hidden" else output[-1:]
        last = log_softmax(final)[0] if want == "logits" else final[0]  # (V,)
        return PrefillResult(
            output=output,
            want=want,
            routes=routes,
            trace=trace,
            tokens=len(ids),
            seconds=elapsed_ns / 1e9,
            peak_rss_bytes=peak_rss_bytes(),
            peak_rss_scope=scope,
            arena_bytes=lane.arena_bytes,
            dense_bytes=self._decoder.nbytes,
            kv_bytes=cache.nbytes,
            bytes_read=read,
            bytes_needed=read - speculative,
            bytes_speculative=speculative,
            storage_idle=storage_idle(trace),
            npu_idle=npu_idle(trace),
            active_experts=sum(len(np.unique(r.expert)) for r in routes.values()),
            total_experts=self.spec.layers * self.spec.experts,
            graph_builds=lane.counts.builds,
            invocations=invocations,
            lane=lane.name,
            machine=processor(),
            layout=self.store.layout,
            profile=lane.numerics_profile,
            schedule=schedule,
            non_expert="host",
            group_size=plan.group_size,
            queue_depth=plan.queue_depth,
            banks=plan.banks,
            threads=host.threads(),
            direct_io=lane.direct_io,
            fallback_reason=lane.fallback_reason,
            read_bandwidth=plan.read_bandwidth or 0.0,
            logits_sha256=hashlib.sha256(output.tobytes()).hexdigest(),
            top=self._top(last),
        )

    def _provenance(self, tokens: int, schedule: str) -> dict[str, str | int | float | bool]:
        plan, lane = self._plan, self._lane
        assert plan is not None
        return {
            "lane": lane.name,
            "kind": "measured",
            "machine": processor(),
            "cpu": processor(),
            "model": str(self.store.origin.get("checkpoint", "")),
            "store_checksum": self.store.checksum,
            "layout": self.store.layout,
            "numerics_profile": lane.numerics_profile,
            "schedule": schedule,
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

    def _top(self, logprobs: NDArray[np.float32]) -> list[tuple[int, str, float]]:
        best = np.argsort(-logprobs, kind="stable")[:TOP]
        return [(int(i), self._text(int(i)), float(logprobs[i])) for i in best]

    def _text(self, token: int) -> str:
        """A token as printable text; vocabularies are often padded beyond the tokenizer's."""
        known = self.tokenizer is not None and token < self.tokenizer.size
        return self.tokenizer.token_text(token) if known and self.tokenizer else f"<{token}>"


def log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-probabilities of each row, float32 (n, V), computed in float64."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    logprobs: NDArray[np.float64] = wide - np.log(np.exp(wide).sum(axis=-1, keepdims=True))
    return logprobs.astype(np.float32)


def _rows(positions: Positions, tokens: int) -> NDArray[np.int64]:
    if isinstance(positions, str) and positions in ("last", "all"):
        return np.arange(tokens) if positions == "all" else np.array([tokens - 1])
    rows = np.asarray(positions)
    plain = rows.ndim == 1 and rows.size and np.issubdtype(rows.dtype, np.integer)
    if not plain or rows.min() < 0 or rows.max() >= tokens:
        raise EStreamError(f"positions must be last, all, or a non-empty list of indices from 0 to {tokens - 1}")
    return rows.astype(np.int64)


def _join(parts: list[Routes], chunk: int) -> Routes:
    """Routes of consecutive chunks as those of the whole prompt."""
    token = np.concatenate([part.token + np.int32(i * chunk) for i, part in enumerate(parts)])
    return Routes(token, np.concatenate([p.expert for p in parts]), np.concatenate([p.weight for p in parts]))
