"""A forward pass with every expert resident, in plain NumPy: the models' room checked by itself, without the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize

from estream_lab.models import Decoder, ExpertSource, ModelSpec
from estream_lab.models.layers import KVCache
from estream_lab.routing import RouterSpec, Routes, route

Expert = tuple[np.ndarray, np.ndarray, np.ndarray]
Router = Callable[[np.ndarray, RouterSpec], Routes]


class Resident:
    """A whole model in memory.

    Args:
        spec: the model.
        decoder: its dense part.
        experts: (layer, expert) → gate (F, H), up (F, H), down (H, F).
        router: turns logits (T, E) into routes.
    """

    def __init__(
        self, spec: ModelSpec, decoder: Decoder, experts: Mapping[tuple[int, int], Expert], router: Router = route
    ) -> None:
        self.spec, self.decoder, self.experts, self.router = spec, decoder, experts, router

    def forward(self, tokens: np.ndarray, chunk: int | None = None) -> tuple[np.ndarray, dict[int, Routes]]:
        """Logits (T, V) and routes of every layer, the prompt cut into chunks of `chunk` tokens."""
        chunk = chunk or len(tokens)
        cache = self.decoder.new_cache(len(tokens))
        logits, parts = [], []
        for start in range(0, len(tokens), chunk):
            x, routes = self._chunk(tokens[start : start + chunk], cache, start)
            logits.append(self.decoder.logits(self.decoder.norm(x)))
            parts.append(routes)
        joined = {layer: _join([part[layer] for part in parts], chunk) for layer in range(self.spec.layers)}
        return np.concatenate(logits), joined

    def _chunk(self, tokens: np.ndarray, cache: KVCache, start: int) -> tuple[np.ndarray, list[Routes]]:
        work, routes = self.decoder.new_workspace(len(tokens)), []
        self.decoder.embed(tokens, work.x)  # (T, H)
        for layer in range(self.spec.layers):
            self.decoder.attend(layer, cache, start, work)
            routes.append(self.router(work.logits, self.spec.router))
            self._add_experts(layer, work.normed, routes[-1], work.x)
        return work.x, routes

    def _add_experts(self, layer: int, normed: np.ndarray, routes: Routes, y: np.ndarray) -> None:
        """Y[t] += α · W^d (SiLU(W^g x) ⊙ (W^u x)), in float64 and rounded once a route."""
        for expert in range(self.spec.experts):
            chosen = routes.expert == expert
            token, weight = routes.token[chosen], routes.weight[chosen]
            gate, up, down = (part.T.astype(np.float64) for part in self.experts[layer, expert])
            x = normed[token].astype(np.float64)  # (c, H)
            inner = x @ gate
            inner = inner / (1 + np.exp(-inner)) * (x @ up)  # (c, F)
            y[token] += (inner @ down * weight[:, None]).astype(np.float32)  # a router names an expert once a token


def read_experts(source: ExpertSource, mode: str) -> dict[tuple[int, int], Expert]:
    """Every expert's weights; in mode "q4_0" after a round trip through Q4_0 by the `gguf` package."""
    through = {"f32": lambda part: part, "q4_0": through_q4_0}[mode]
    return {
        (layer, expert): tuple(through(part) for part in source.expert(layer, expert))
        for layer in range(source.spec.layers)
        for expert in range(source.spec.experts)
    }


def through_q4_0(weights: np.ndarray) -> np.ndarray:
    """Quantise to Q4_0 along the last axis and back."""
    kind = GGMLQuantizationType.Q4_0
    return dequantize(quantize(weights, kind), kind).reshape(weights.shape)


def _join(parts: list[Routes], chunk: int) -> Routes:
    return Routes(
        np.concatenate([part.token + number * chunk for number, part in enumerate(parts)]),
        np.concatenate([part.expert for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )
