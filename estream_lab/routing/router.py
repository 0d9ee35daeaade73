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
    """Choose each token's experts and their weights: the rule in plain NumPy (`Router` is what an engine runs).

    Scores are computed over all experts, then the k largest are taken, in descending order as `torch.topk` gives them;
    among equal scores the lower expert id comes first (torch leaves that open).

    Args:
        logits: (T, E) float32.
        spec: the family's rule.
        bias: (E,) float32 added to the scores for the choice only; the weights stay unbiased (LFM2).

    Returns:
        T * k routes.

    Raises:
        ValueError: a wrong shape, or a number that is not finite.
    """
    logits = np.asarray(logits, np.float32)
    if logits.ndim != 2 or logits.shape[1] != spec.experts:
        raise ValueError(f"router logits must have shape (T, {spec.experts}), not {logits.shape}")
    if not np.isfinite(logits).all():
        raise ValueError("a router logit is not finite")
    scores = _softmax(logits) if spec.scoring == "softmax" else _sigmoid(logits)  # (T, E)
    choice = scores if bias is None else scores + _checked_bias(bias, spec)
    # A stable sort of the negated scores: descending, equal scores in id order.
    ids = np.argsort(-choice, axis=1, kind="stable")[:, : spec.top_k].astype(np.int32)  # (T, k)
    weights = np.take_along_axis(scores, ids, axis=1)  # (T, k)
    if spec.renormalise:
        weights = weights / (weights.sum(axis=1, keepdims=True) + np.float32(spec.renormalise_epsilon))
    return Routes.from_topk(ids, weights * np.float32(spec.scale))


class Router:
    """`route` for one layer after the other, in arrays made once: what a call allocates does not grow with its tokens.

    Args:
        spec: the family's rule.
        max_tokens: the most tokens of one call.
    """

    def __init__(self, spec: RouterSpec, max_tokens: int) -> None:
        self.spec, self.max_tokens = spec, max_tokens
        shape = (max_tokens, spec.experts)
        self._shifted, self._scores, self._choice = (np.empty(shape, np.float32) for _ in range(3))  # (T, E)
        self._repeated = np.empty(max_tokens * spec.experts, np.float32)
        self._mask = np.empty(shape, np.bool_)  # (T, E)
        self._column = np.empty((max_tokens, 1), np.float32)
        self._best, self._flat = np.empty(max_tokens, np.intp), np.empty(max_tokens, np.intp)
        self._row = np.arange(max_tokens, dtype=np.intp) * spec.experts  # where each token's scores begin

    @staticmethod
    def bytes_for(experts: int, max_tokens: int) -> int:
        """`nbytes` of a router of E experts."""
        return max_tokens * (17 * experts + 4 + 3 * np.dtype(np.intp).itemsize)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray))

    def choose(
        self,
        logits: NDArray[np.float32],
        expert: NDArray[np.int32],
        weight: NDArray[np.float32],
        bias: NDArray[np.float32] | None = None,
    ) -> None:
        """Choose each token's experts and their weights, the same bits as `route`.

        Args:
            logits: (T, E) float32, T <= max_tokens.
            expert: (T, k) int32, written.
            weight: (T, k) float32, written.
            bias: see `route`.

        Raises:
            ValueError: a wrong shape, or a number that is not finite.
        """
        rows, spec = len(logits), self.spec
        if logits.shape != (rows, spec.experts) or rows > self.max_tokens:
            raise ValueError(f"logits {logits.shape} don't fit a router of ({self.max_tokens}, {spec.experts})")
        if expert.shape != (rows, spec.top_k) or weight.shape != (rows, spec.top_k):
            raise ValueError(f"room for experts {expert.shape} and weights {weight.shape} isn't {(rows, spec.top_k)}")
        if not np.isfinite(logits, out=self._mask[:rows]).all():
            raise ValueError("a router logit is not finite")
        if spec.scoring == "softmax":
            self._softmax(logits)
        else:
            self._sigmoid(logits)
        self._take(expert, weight, bias)
        if spec.renormalise:
            total = np.sum(weight, axis=1, keepdims=True, out=self._column[:rows])  # (T, 1)
            total += np.float32(spec.renormalise_epsilon)
            _by_row(np.divide, weight, total, self._repeated[: weight.size], weight)
        weight *= np.float32(spec.scale)

    def _take(self, expert: NDArray[np.int32], weight: NDArray[np.float32], bias: NDArray[np.float32] | None) -> None:
        """The k largest scores of each token, one after the other; of equal ones `argmax` takes the lower id."""
        rows = len(expert)
        scores, choice = self._scores[:rows], self._choice[:rows]  # (T, E)
        best, flat = self._best[:rows], self._flat[:rows]  # (T,)
        taken = self._column[:rows, 0]  # (T,)
        if bias is None:
            np.copyto(choice, scores)
        else:
            np.copyto(choice, _checked_bias(bias, self.spec))
            np.add(scores, choice, out=choice)
        for k in range(self.spec.top_k):
            np.argmax(choice, axis=1, out=best)
            np.add(best, self._row[:rows], out=flat)
            np.take(scores.reshape(-1), flat, out=taken, mode="clip")  # "raise" would go through a copy
            expert[:, k], weight[:, k] = best, taken
            np.put(choice.reshape(-1), flat, -np.inf)

    def _softmax(self, logits: NDArray[np.float32]) -> None:
        rows = len(logits)
        shifted, scores, column = self._shifted[:rows], self._scores[:rows], self._column[:rows]
        np.max(logits, axis=1, keepdims=True, out=column)
        with np.errstate(over="ignore"):  # see `_softmax`
            _by_row(np.subtract, logits, column, self._repeated[: logits.size], shifted)
            np.exp(shifted, out=scores)
        np.sum(scores, axis=1, keepdims=True, out=column)
        _by_row(np.divide, scores, column, self._repeated[: logits.size], scores)

    def _sigmoid(self, logits: NDArray[np.float32]) -> None:
        rows = len(logits)
        shifted, scores, above = self._shifted[:rows], self._scores[:rows], self._choice[:rows]
        np.negative(np.abs(logits, out=shifted), out=shifted)
        np.exp(shifted, out=scores)
        np.copyto(above, scores)
        np.copyto(above, 1, where=np.greater_equal(logits, 0, out=self._mask[:rows]))
        scores += np.float32(1)
        np.divide(above, scores, out=scores)


def _by_row(
    operation: np.ufunc,
    left: NDArray[np.float32],
    column: NDArray[np.float32],
    room: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """``operation(left, column, out=out)`` of (T, N) and (T, 1), without NumPy's buffer for what it repeats.

    ``room`` has T * N numbers.
    """
    repeated = room.reshape(left.shape)
    np.copyto(repeated, column)
    operation(left, repeated, out=out)


def _checked_bias(bias: NDArray[np.float32], spec: RouterSpec) -> NDArray[np.float32]:
    bias = np.asarray(bias, np.float32)
    if bias.shape != (spec.experts,):
        raise ValueError(f"the expert bias must have shape ({spec.experts},), not {bias.shape}")
    if not np.isfinite(bias).all():
        raise ValueError("an expert's bias is not finite")
    return bias


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # a difference beyond fp32 is -inf, whose exp is 0
        e = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True), np.float32)


def _sigmoid(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    # exp(-|x|) never overflows.
    e = np.exp(-np.abs(logits))
    return np.asarray(np.where(logits >= 0, np.float32(1), e) / (np.float32(1) + e), np.float32)
