"""The paper's figure of routes: how many of a prompt's routes each expert gets, and how many experts it touches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.routing import Routes
from estream_lab.routing.touched import touched_experts
from estream_lab.simulate.models import MODELS, ModelShape
from estream_lab.simulate.workload import Workload, drawn_routes
from estream_lab.streaming import Store
from estream_lab.streaming.pack import pack
from estream_lab.tuning.paper.marks import MEASURED, SIMULATED, Mark, published_mark

THRESHOLD = 64
"""Routes from which an expert is worth an NPU's time, in the paper."""

WELL_FILLED, THEIR_ROUTES = f"experts with {THRESHOLD} routes or more", "routes that they have"
TOUCHED = "experts touched"
MEASURED_TOLERANCE = 100 / 16
"""Of a measured share, in points: one expert of a layer. Elsewhere a router's scores may differ in their last bit and
send a token to another expert."""


@dataclass(frozen=True)
class Size:
    """How much is shown: models of `MODELS`, numbers of tokens, and those of the shipped model."""

    models: tuple[str, ...]
    tokens: tuple[int, ...]
    measured_tokens: tuple[int, ...]


FULL = Size(tuple(MODELS), (128, 256, 512, 1024, 2048, 4096), (128, 256, 512, 1024))
FAST = Size(("olmoe", "mixtral"), (128, 1024), (128, 512))


@dataclass(frozen=True, eq=False)
class Prompt:
    """A model's routes for its longest prompt, of which shorter ones are the beginning.

    Attributes:
        model: its sizes. routes: by layer. kind: measured or simulated. origin: whence, in words.
    """

    model: ModelShape
    routes: Mapping[int, Routes]
    kind: str
    origin: str

    def first(self, tokens: int) -> Workload:
        """The workload of the first ``tokens``: attention looks back only, so they are routed as if no more came.

        Raises:
            EStreamError: no token.
        """
        return Workload.of_routes(
            self.model, {i: beginning(each, tokens) for i, each in self.routes.items()}, self.origin
        )

    def touched(self) -> NDArray[np.float64]:
        """Experts that the first 1, 2, …, T tokens touch, in the mean of the layers: (T,)."""
        by_layer = np.array([touched_experts(each) for each in self.routes.values()], np.float64)  # (layers, T)
        return np.asarray(by_layer.mean(axis=0))


def beginning(routes: Routes, tokens: int) -> Routes:
    """The routes of the first ``tokens`` tokens."""
    count = int(np.searchsorted(routes.token, tokens))
    return Routes.over(routes.token[:count], routes.expert[:count], routes.weight[:count])


def drawn(size: Size) -> list[Prompt]:
    """The models' prompts, with synthetic routes."""
    made = [(MODELS[name], *drawn_routes(MODELS[name], max(size.tokens))) for name in size.models]
    return [Prompt(model, routes, SIMULATED, origin) for model, routes, origin in made]


def shipped(checkpoint: Path, text: str, size: Size) -> Prompt:
    """The beginning of a text through a checkpoint, here.

    Raises:
        EStreamError: a checkpoint that can't be read, or a text that is shorter than the longest prompt.
    """
    tokens = max(size.measured_tokens)
    with TemporaryDirectory(prefix="estream-routes-") as folder:
        pack(checkpoint, Path(folder) / "packed.estream", progress=False)
        store = Store(Path(folder) / "packed.estream")
        with PrefillEngine.open(store) as engine:
            if engine.tokenizer is None:
                raise EStreamError(f"{checkpoint} has no tokenizer: give a checkpoint with one")
            prompt = engine.tokenizer.encode(text)[:tokens]
            if len(prompt) < tokens:
                raise EStreamError(f"the text has {len(prompt)} tokens and {tokens} are asked for: give a longer one")
            routes = engine.prefill(prompt, want="hidden").routes
        model = ModelShape.of_spec(store.spec, str(store.origin["checkpoint"]), store.stride)
    return Prompt(model, routes, MEASURED, "measured")


def prompts(size: Size, checkpoint: Path, text: str) -> dict[Prompt, tuple[int, ...]]:
    """All models' prompts with the lengths at which they are looked at, the shipped model's first.

    Raises:
        EStreamError: as `shipped`.
    """
    return {shipped(checkpoint, text, size): size.measured_tokens} | dict.fromkeys(drawn(size), size.tokens)


def marks(asked: Mapping[Prompt, Sequence[int]]) -> list[Mark]:
    """Of each prompt at each length the shares of experts and of routes, of all layers together; of what was measured,
    also the experts that each layer touches; and what is published.

    The published 94.8 % is of CPU time. Time that goes with routes would be the share of routes; time that each expert
    costs alike, that of experts.
    """
    found = []
    for prompt, lengths in asked.items():
        for tokens in lengths:
            loads, of = prompt.first(tokens).loads, f"{prompt.model.title}, {tokens} tokens"
            found += [Mark(of, name, value, "%", prompt.kind) for name, value in shares(loads).items()]
            if prompt.kind == MEASURED:
                found += [
                    Mark(of, f"{TOUCHED}, layer {layer}", 100 * float((row > 0).mean()), "%", MEASURED)
                    for layer, row in enumerate(loads)
                ]
    if any(prompt.model is MODELS["olmoe"] for prompt in asked):
        title = MODELS["olmoe"].title
        found.append(published_mark("routes64_share", f"{title}, 1024 tokens", THEIR_ROUTES))
    return found


def at(found: Sequence[Mark], tokens: int) -> list[Mark]:
    """Of marks those at one length that all models have."""
    names = (WELL_FILLED, THEIR_ROUTES, TOUCHED)
    return [mark for mark in found if mark.of.endswith(f", {tokens} tokens") and mark.quantity in names]


def shares(loads: NDArray[np.int64]) -> dict[str, float]:
    """Per cent of the experts that are well filled, of the routes that those have, and of the experts touched.

    Args:
        loads: (layers, E) routes of each expert.
    """
    filled = loads >= THRESHOLD
    return {
        WELL_FILLED: 100 * float(filled.mean()),
        THEIR_ROUTES: 100 * float(loads[filled].sum() / loads.sum()),
        TOUCHED: 100 * float((loads > 0).mean()),
    }
