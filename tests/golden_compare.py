"""Hold a forward pass to the goldens that transformers computed (oracle/build_goldens.py describes the files)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from estream_lab.routing import Routes

GOLDENS = Path(__file__).parent / "goldens"
TINY_MOE = Path(__file__).parent.parent / "data" / "tiny_moe" / "checkpoint"
CHECKPOINTS = {"random_olmoe": GOLDENS / "random_olmoe", "tiny_moe": TINY_MOE}
# A router difference below this may fall either way: float32 sums in another order differ by as much.
TIE = 1e-6

# Token ids (T,) int32 → logits (T, V) and each layer's routes.
Forward = Callable[[np.ndarray], tuple[np.ndarray, Mapping[int, Routes]]]


@dataclass(frozen=True)
class GoldenPrompt:
    """One prompt of T tokens.

    Attributes:
        positions, logits: (n,) and (n, V): what the reference answered at some places.
        ids, weights: (L, T, k), every route.
        margins: (layer, token) → by how much the last router logit chosen exceeds the first not chosen, if below 1e-5.
    """

    domain: str
    tokens: np.ndarray
    positions: np.ndarray
    logits: np.ndarray
    ids: np.ndarray
    weights: np.ndarray
    margins: Mapping[tuple[int, int], float]


@dataclass(frozen=True)
class Golden:
    """One model in one mode ("f32" or "q4_0" expert weights)."""

    checkpoint: Path
    mode: str
    provenance: Mapping[str, Any]
    prompts: tuple[GoldenPrompt, ...]

    @classmethod
    def load(cls, model: str, mode: str) -> Golden:
        """The committed golden of model "random_olmoe" or "tiny_moe"."""
        with np.load(GOLDENS / f"{model}.{mode}.npz") as arrays:
            return cls(CHECKPOINTS[model], mode, json.loads(str(arrays["provenance"])), tuple(_prompts(dict(arrays))))


def _prompts(arrays: Mapping[str, np.ndarray]) -> Iterator[GoldenPrompt]:
    token_end = row_end = 0
    for domain, length, count in zip(arrays["domains"], arrays["lengths"], arrays["position_counts"], strict=True):
        token_start, row_start = token_end, row_end
        token_end, row_end = token_end + int(length), row_end + int(count)
        ties = zip(arrays["tie_layer"], arrays["tie_token"], arrays["tie_margin"], strict=True)
        yield GoldenPrompt(
            domain=str(domain),
            tokens=arrays["tokens"][token_start:token_end].astype(np.int32),
            positions=arrays["positions"][row_start:row_end],
            logits=arrays["logits"][row_start:row_end],
            ids=arrays["ids"][:, token_start:token_end],
            weights=arrays["weights"][:, token_start:token_end],
            margins={
                (int(layer), int(token) - token_start): float(margin)
                for layer, token, margin in ties
                if token_start <= token < token_end
            },
        )


@dataclass(frozen=True)
class Comparison:
    """How far a forward pass is from a golden.

    Attributes:
        max_abs_error: of all recorded logits.
        max_weight_error: of the weights of all routes that agree.
        route_flips: (layer, token) pairs whose set of experts differs without the excuse of a tie.
        ties: such pairs whose router logits the reference had within TIE of each other.
        missing_routes: layers × prompts in which the number of routes is not tokens × k.
        routes: routes compared.
    """

    max_abs_error: float
    max_weight_error: float
    route_flips: int
    ties: int
    missing_routes: int
    routes: int


def compare(golden: Golden, forward: Forward, *, longest: int | None = None) -> Comparison:
    """Run every prompt (of at most `longest` tokens) and compare logits and the routes of every layer.

    The order of a token's routes is left open: it changes neither the sum nor anything downstream.
    """
    error = weight_error = 0.0
    flips = ties = missing = routes = 0
    for prompt in golden.prompts:
        if longest is not None and len(prompt.tokens) > longest:
            continue
        logits, found = forward(prompt.tokens)
        error = max(error, _distance(logits[prompt.positions], prompt.logits))
        layers, tokens, top_k = prompt.ids.shape
        assert sorted(found) == list(range(layers))
        for layer in range(layers):
            routes += tokens * top_k
            if len(found[layer]) != tokens * top_k:
                missing += 1
                continue
            ours, weights = _by_expert(found[layer].expert.reshape(tokens, top_k), found[layer].weight)
            theirs, golden_weights = _by_expert(prompt.ids[layer], prompt.weights[layer])
            assert np.array_equal(found[layer].token, np.repeat(np.arange(tokens), top_k))
            same = (ours == theirs).all(axis=-1)  # (T,)
            weight_error = max(weight_error, _distance(weights[same], golden_weights[same]))
            for token in np.flatnonzero(~same):
                if prompt.margins.get((layer, int(token)), np.inf) < TIE:
                    ties += 1
                else:
                    flips += 1
    return Comparison(error, weight_error, flips, ties, missing, routes)


def _by_expert(ids: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ids and weights (T, k) with each token's routes in ascending order of expert."""
    order = np.argsort(ids, axis=-1, kind="stable")
    return np.take_along_axis(ids, order, -1), np.take_along_axis(weights.reshape(ids.shape), order, -1)


def _distance(ours: np.ndarray, theirs: np.ndarray) -> float:
    """Largest absolute difference; NaN counts as infinitely far."""
    if not ours.size:
        return 0.0
    return float(np.nan_to_num(np.abs(ours.astype(np.float64) - theirs), nan=np.inf).max())
