"""`PrefillEngine`: tokens in, logits or hidden states out, with a trace and measured figures."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from estream_lab.engine.head import check_finite, log_softmax
from estream_lab.engine.holdings import Holdings, Room
from estream_lab.engine.kernels import open_kernels
from estream_lab.engine.memory import Demand, MemoryPlan, Want
from estream_lab.engine.progress import progress
from estream_lab.engine.request import Request, measured
from estream_lab.engine.result import PrefillResult
from estream_lab.engine.settings import EngineSettings
from estream_lab.errors import EStreamError
from estream_lab.kernels import host
from estream_lab.machine import available_cpus
from estream_lab.models.tokenizer import Tokenizer
from estream_lab.streaming import Store
from estream_lab.workers import sheltered

Positions = Literal["last", "all"] | Sequence[int]

TOP = 5


class PrefillEngine:
    """Prefill of one store's model; the experts run in a lane, everything else on this computer.

    Use `open`, and close it or use it as a context manager. One request runs at a time. What requests need is made for
    the first and kept: after that, nothing is allocated while the layers run, unless a prompt is longer.
    """

    def __init__(self, store: Store, settings: EngineSettings) -> None:
        self.store, self.spec = store, store.spec
        self.settings = settings.complete(store)
        self.tokenizer = Tokenizer.from_json(store.tokenizer_json) if store.tokenizer_json else None
        host.set_threads(self.settings.threads or available_cpus())
        self._holdings = Holdings(store, self.settings, open_kernels(self.settings.chosen_executor, store.dense.kinds))
        if self.settings.memory_budget is None:  # else the first request tells whether the weights have a place
            self._holdings.load()
        self._busy = threading.Lock()

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
        self._holdings.close_lane()

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
            progress: show a bar on standard error (`engine.progress`).

        Returns:
            Output float32 (n, V) or (n, H) with routes, trace and figures.

        Raises:
            EStreamError: an empty prompt, ids outside the vocabulary, more tokens than the context, storage that fails
                during the run, weights so large that values overflow, or a request of another thread that is still
                running.
        """
        ids = self._check(tokens)
        rows = _rows(positions, len(ids))
        if want not in get_args(Want):
            raise EStreamError(f"a prefill gives {', '.join(get_args(Want))}, not '{want}'")
        return sheltered(partial(self._answer, ids, want, rows, progress))

    def _answer(self, ids: NDArray[np.int32], want: Want, rows: NDArray[np.int64], shown: bool) -> PrefillResult:
        """A request, checked, on a thread where no signal interrupts it."""
        host.set_threads(self.settings.threads or available_cpus())  # of this thread's kernels, no other's
        with self._alone():
            memory, room, cache = self._holdings.prepare(Demand(len(ids), len(rows), want))
            try:
                request = Request.begin(ids, want, rows, self.spec, cache, room.lane)
                return self._run(request, memory, room, shown)
            except BaseException:
                self.close()  # the next request opens a lane of its own, whatever state this one was left in
                raise

    def prepare(self, tokens: int, want: Want = "logits", outputs: int = 1) -> MemoryPlan:
        """Make room for requests of up to ``tokens`` tokens and ``outputs`` rows of output ahead of the first.

        Returns:
            What such a request will hold, part by part.

        Raises:
            EStreamError: the memory budget is too small for them, before anything is read; storage that fails.
        """
        self._check_length(tokens)
        return sheltered(partial(self._prepare, Demand(max(1, tokens), max(1, outputs), want)))

    def _prepare(self, demand: Demand) -> MemoryPlan:
        with self._alone():
            return self._holdings.prepare(demand)[0]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One request at a time; one that was stopped may still be on its way out."""
        if not self._busy.acquire(blocking=False):
            raise EStreamError("this engine runs another request: wait for its end, or open one engine a thread")
        try:
            yield
        finally:
            self._busy.release()

    def _run(self, request: Request, memory: MemoryPlan, room: Room, shown: bool) -> PrefillResult:
        """One request, checked, with all of its memory there."""
        ids, decoder = request.ids, self._holdings.decoder
        hidden = np.empty((len(request.rows), self.spec.hidden), np.float32)  # (n, H)
        starts = range(0, len(ids), room.plan.max_tokens)
        steps = len(starts) * self.spec.layers
        with progress(steps, lambda: room.lane.arrived_bytes, shown) as bar:
            for start in starts:
                chunk = ids[start : start + room.plan.max_tokens]
                x = self._layers(room, request, chunk, start, bar)  # (T, H)
                inside = (request.rows >= start) & (request.rows < start + len(chunk))
                picked = x[request.rows[inside] - start]
                hidden[inside] = decoder.norm(picked, picked)
            with request.recorder.span("dense", "head"):
                output = self._output(hidden, request.want, room)
        request.finish()
        final = self._output(hidden[-1:], "logprobs", room) if request.want == "hidden" else output[-1:]
        last = log_softmax(final)[0] if request.want == "logits" else final[0]  # (V,)
        return measured(self._holdings, room, request, hidden, output, memory, self._top(last))

    def _layers(
        self, room: Room, request: Request, chunk: NDArray[np.int32], start: int, bar: "tqdm[Any]"
    ) -> NDArray[np.float32]:
        """All layers for one chunk of tokens that begins at position ``start``: (T, H) before the final norm."""
        recorder, lane, decoder, work = request.recorder, room.lane, self._holdings.decoder, room.work.first(len(chunk))
        with recorder.span("dense", "embedding"):
            decoder.embed(chunk, work.x)
        for layer in range(self.spec.layers):
            lane.begin(layer)
            with recorder.span("dense", "attention", layer=layer, rows=len(chunk)):
                decoder.attend(layer, request.cache, start, work)
            check_finite(work.logits, f"the router of layer {layer}")
            with recorder.span("dense", "router", layer=layer, rows=len(chunk)):
                routes = request.choose(room.router, work.logits, layer, start)
            y, completion = lane.run(layer, work.normed, routes)  # (T, H)
            request.completions.append(completion)
            np.add(work.x, y, out=work.x)
            bar.update()
        return work.x

    def _output(self, hidden: NDArray[np.float32], want: Want, room: Room) -> NDArray[np.float32]:
        check_finite(hidden, "the final norm")
        if want == "hidden":
            return hidden
        logits = self._holdings.decoder.logits(hidden, room.work.linear)  # (n, V)
        check_finite(logits, "the head")
        return log_softmax(logits, logits) if want == "logprobs" else logits

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
        self._check_length(len(ids))
        return ids.astype(np.int32)

    def _check_length(self, tokens: int) -> None:
        if tokens > self.spec.context:
            raise EStreamError(
                f"the prompt has {tokens} tokens and the model's context is {self.spec.context}: shorten it"
            )

    def _top(self, logprobs: NDArray[np.float32]) -> list[tuple[int, str, float]]:
        best = np.argsort(-logprobs, kind="stable")[:TOP]
        return [(int(i), self._text(int(i)), float(logprobs[i])) for i in best]

    def _text(self, token: int) -> str:
        """A token as printable text; vocabularies are often padded beyond the tokenizer's."""
        known = self.tokenizer is not None and token < self.tokenizer.size
        return self.tokenizer.token_text(token) if known and self.tokenizer else f"<{token}>"


def _rows(positions: Positions, tokens: int) -> NDArray[np.int64]:
    if isinstance(positions, str) and positions in ("last", "all"):
        return np.arange(tokens) if positions == "all" else np.array([tokens - 1])
    rows = np.asarray(positions)
    plain = rows.ndim == 1 and rows.size and np.issubdtype(rows.dtype, np.integer)
    if not plain or rows.min() < 0 or rows.max() >= tokens:
        raise EStreamError(f"positions must be last, all, or a non-empty list of indices from 0 to {tokens - 1}")
    return rows.astype(np.int64)
