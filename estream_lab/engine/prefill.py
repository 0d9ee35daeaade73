"""`PrefillEngine`: tokens in, logits or hidden states out, with a trace and measured figures."""

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from estream_lab.engine.kernels import load_kernels
from estream_lab.engine.request import Request, measured
from estream_lab.engine.result import PrefillResult
from estream_lab.engine.settings import EngineSettings
from estream_lab.errors import EStreamError
from estream_lab.kernels import host
from estream_lab.machine import available_cpus
from estream_lab.models.layers import Decoder
from estream_lab.models.tokenizer import Tokenizer
from estream_lab.routing import route
from estream_lab.streaming import InProcessLane, LanePlan, Store, open_lane
from estream_lab.trace import Recorder

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
        load_kernels()
        with store.dense_reader() as read:
            self._decoder = Decoder(store.spec, read)
        self._busy = threading.Lock()
        self._lane: InProcessLane | None = None
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
                during the run, weights so large that values overflow, or a request of another thread that is still
                running.
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
        lane, plan = self._prepare(len(ids))
        host.set_threads(self.settings.threads or available_cpus())
        request = Request(
            ids, want, rows, Recorder(lane.name), self._decoder.new_cache(len(ids)), lane.counts.invocations
        )
        lane.start(request.recorder)
        hidden = np.empty((len(rows), self.spec.hidden), np.float32)  # (n, H)
        starts = range(0, len(ids), plan.max_tokens)
        steps = len(starts) * self.spec.layers
        with tqdm(total=steps, unit="layer", desc="prefill", leave=False, delay=1, disable=not progress) as bar:
            for start in starts:
                chunk = ids[start : start + plan.max_tokens]
                x = self._layers(lane, request, chunk, start, bar)
                inside = (rows >= start) & (rows < start + len(chunk))
                hidden[inside] = self._decoder.norm(x[rows[inside] - start])
            with request.recorder.span("dense", "head"):
                output = self._output(hidden, want)
        request.finish()
        final = self._output(hidden[-1:], "logprobs") if want == "hidden" else output[-1:]
        last = log_softmax(final)[0] if want == "logits" else final[0]  # (V,)
        return measured(self.store, self.settings, lane, plan, request, output, self._decoder.nbytes, self._top(last))

    def _layers(
        self, lane: InProcessLane, request: Request, chunk: NDArray[np.int32], start: int, bar: "tqdm[Any]"
    ) -> NDArray[np.float32]:
        """All layers for one chunk of tokens that begins at position ``start``: (T, H) before the final norm."""
        recorder = request.recorder
        with recorder.span("dense", "embedding"):
            x = self._decoder.embed(chunk)  # (T, H)
        for layer in range(self.spec.layers):
            lane.begin(layer)
            with recorder.span("dense", "attention", layer=layer, rows=len(chunk)):
                # (T, H), (T, H), (T, E)
                residual, normed, logits = self._decoder.attend(layer, x, request.cache, start)
            _check_finite(logits, f"the router of layer {layer}")
            with recorder.span("dense", "router", layer=layer, rows=len(chunk)):
                routes = route(logits, self.spec.router)
                lane.x[: len(chunk)] = normed
            y, completion = lane.run(layer, lane.x[: len(chunk)], routes)  # (T, H)
            request.add(layer, start, routes, completion)
            x = residual + y
            bar.update()
        return x

    def _output(self, hidden: NDArray[np.float32], want: Want) -> NDArray[np.float32]:
        _check_finite(hidden, "the final norm")
        if want == "hidden":
            return hidden
        logits = self._decoder.logits(hidden)  # (n, V)
        _check_finite(logits, "the head")
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

    def _prepare(self, tokens: int) -> tuple[InProcessLane, LanePlan]:
        """The lane, opened anew where this prompt needs more rows; a lane serves shorter prompts as it is."""
        settings = self.settings
        rows = min(tokens, settings.chunk_tokens or tokens)
        if self._lane is None or self._plan is None or rows > self._plan.max_tokens:
            self.close()
            self._plan = settings.plan(rows, self.spec.router.top_k)
            self._lane = open_lane(self.store, self._plan, resident=settings.resident)
        return self._lane, self._plan

    def _top(self, logprobs: NDArray[np.float32]) -> list[tuple[int, str, float]]:
        best = np.argsort(-logprobs, kind="stable")[:TOP]
        return [(int(i), self._text(int(i)), float(logprobs[i])) for i in best]

    def _text(self, token: int) -> str:
        """A token as printable text; vocabularies are often padded beyond the tokenizer's."""
        known = self.tokenizer is not None and token < self.tokenizer.size
        return self.tokenizer.token_text(token) if known and self.tokenizer else f"<{token}>"


def _check_finite(values: NDArray[np.float32], where: str) -> None:
    """Weights are finite, but products of huge ones need not be."""
    if not np.isfinite(values).all():
        raise EStreamError(
            f"{where} gives NaN or infinite values: the model's weights overflow float32, check its origin"
        )


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
