"""Routers: from logits to routes, always in fp32."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from estream_lab.routing.routes import Routes


@dataclass(frozen=True, kw_only=True)
class RouterSpec:
    """How a family scores and weights its experts.

    Attributes:
        experts: E, routed experts of a layer.
        top_k: k, experts a token visits.
        scoring: 'softmax' over all experts, or 'sigmoid' of each.
        renormalise: whether a token's k weights are divided by their sum. OLMoE and DeepSeek-V2-Lite do not.
        scale: factor on every weight.
        renormalise_epsilon: added to that sum (LFM2: 1e-6).
    """

    experts: int
    top_k: int
    renormalise: bool
    scoring: Literal["softmax", "sigmoid"] = "softmax"
    scale: float = 1.0
    renormalise_epsilon: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.top_k <= self.experts:
            raise ValueError(f"a router of {self.experts} experts cannot choose {self.top_k}")
        if self.scoring not in ("softmax", "sigmoid"):
            raise ValueError(f"unknown scoring {self.scoring!r}: 'softmax' or 'sigmoid'")
        if not (np.isfinite(self.scale) and np.isfinite(self.renormalise_epsilon) and self.renormalise_epsilon >= 0):
            raise ValueError("scale must be finite, and renormalise_epsilon finite and not negative")

    def to_json(self) -> dict[str, Any]:
        """Every field, ready for json.dump."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RouterSpec:
        """The inverse of `to_json`; refuses unknown and missing keys, and values of other types (ValueError)."""
        names = {f.name for f in fields(cls)}
        if set(values) != names:
            odd = ", ".join(sorted(set(values) ^ names))
            raise ValueError(f"a router spec has exactly the keys {', '.join(sorted(names))}; check: {odd}")
        if wrong := wrong_types(values, cls):
            raise ValueError(f"in a router spec {wrong[0]}")
        return cls(**values)


def wrong_types(values: Mapping[str, Any], of: type) -> list[str]:
    """What JSON values don't fit the plain fields of a dataclass: "top_k is 1.5, not int"; a float must be finite.

    Python would take most of them: text for a flag is true, a fraction for a count fails far from here.
    """
    fits: dict[str, Callable[[Any], bool]] = {
        "int": lambda value: type(value) is int,
        "float": lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max,
        "bool": lambda value: type(value) is bool,
        "str": lambda value: type(value) is str,
    }
    given = [(field.name, str(field.type), values[field.name]) for field in fields(of)]
    return [f"{name} is {value!r}, not {kind}" for name, kind, value in given if kind in fits and not fits[kind](value)]


def route(logits: NDArray[np.float32], spec: RouterSpec, bias: NDArray[np.float32] | None = None) -> Routes:
    """Choose each token's experts and their weights.

    Scores are computed over all experts, then the k largest are taken, in descending order as `torch.topk` gives them;
    among equal scores the lower expert id comes first (torch leaves that open).

    Args:
        logits: (T, E) float32.
        spec: the family's rule.
        bias: (E,) float32 added to the scores for the choice only; the weights stay unbiased (LFM2).

    Returns:
        T * k routes.

    Raises:
        ValueError: a wrong shape, or a logit that is not finite.
    """
    logits = np.asarray(logits, np.float32)
    if logits.ndim != 2 or logits.shape[1] != spec.experts:
        raise ValueError(f"router logits must have shape (T, {spec.experts}), not {logits.shape}")
    if not np.isfinite(logits).all():
        raise ValueError("a router logit is not finite")
    scores = _softmax(logits) if spec.scoring == "softmax" else _sigmoid(logits)  # (T, E)
    choice = scores
    if bias is not None:
        bias = np.asarray(bias, np.float32)
        if bias.shape != (spec.experts,):
            raise ValueError(f"the expert bias must have shape ({spec.experts},), not {bias.shape}")
        choice = scores + bias
    # A stable sort of the negated scores: descending, equal scores in id order.
    ids = np.argsort(-choice, axis=1, kind="stable")[:, : spec.top_k].astype(np.int32)  # (T, k)
    weights = np.take_along_axis(scores, ids, axis=1)  # (T, k)
    if spec.renormalise:
        weights = weights / (weights.sum(axis=1, keepdims=True) + np.float32(spec.renormalise_epsilon))
    return Routes.from_topk(ids, weights * np.float32(spec.scale))


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # a difference beyond fp32 is -inf, whose exp is 0
        e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True), np.float32)


def _sigmoid(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    # exp(-|x|) never overflows.
    e = np.exp(-np.abs(logits))
    return np.asarray(np.where(logits >= 0, np.float32(1), e) / (np.float32(1) + e), np.float32)
