"""Numerics attribution: how much of the difference between device and exact results each step of the arithmetic makes.

Two kinds of figures. *Local*: every variant sees the same inputs, those of the run with all steps off, so that layers
don't add up. *Free-running*: each variant goes its own way through the model; its routes and its log-probabilities are
compared with those of its reference.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.evaluate.bits import Window, token_bits
from estream_lab.evaluate.cases import OFF, Case
from estream_lab.evaluate.local import LocalErrors
from estream_lab.experts.switched import switched, watched
from estream_lab.kernels.exact.switches import Switches
from estream_lab.streaming import Store

LOG2 = math.log(2)


@dataclass(frozen=True)
class Row:
    """What one step, or several, change.

    Attributes:
        group, name: of the case.
        on, reference: what was on, and what was on in the run that it is compared with.
        layer_error: of each layer's expert output on equal inputs: ‖y - y_ref‖ / ‖y_off‖ over all windows.
        layer_flips: routes of each layer that visit another expert than in the reference run.
        flip_share: of all layers' routes.
        divergence_bits: Kullback-Leibler divergence of the next-token distribution from the reference's, mean.
        delta_bits_per_byte: change of the text's cost. standard_error: of it, over windows.
        perplexity_percent: the change of perplexity a token that this is.
    """

    group: str
    name: str
    on: tuple[str, ...]
    reference: tuple[str, ...]
    layer_error: tuple[float, ...]
    layer_flips: tuple[int, ...]
    flip_share: float
    divergence_bits: float
    delta_bits_per_byte: float
    standard_error: float
    perplexity_percent: float


@dataclass(frozen=True)
class Attribution:
    """All rows for one model and text.

    Attributes:
        model: where its weights come from. renormalise: whether its router divides a token's weights by their sum.
        windows, tokens: of the text that was read. routes_per_layer: tokens times k.
        bits_per_byte: with Q4_0 weights and all steps off.
        rows: in the order of the cases.
    """

    model: str
    renormalise: bool
    windows: int
    tokens: int
    routes_per_layer: int
    bits_per_byte: float
    rows: tuple[Row, ...]

    def row(self, group: str, name: str) -> Row:
        """The row of this group and name."""
        return next(row for row in self.rows if (row.group, row.name) == (group, name))

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)


@dataclass(frozen=True)
class _Run:
    """A variant's way: of each window log-probabilities (n, V) and sorted experts (L, n, k)."""

    logprobs: list[NDArray[np.float32]]
    experts: list[NDArray[np.int32]]


def attribute(store: Store, windows: Sequence[Window], found: Sequence[Case], *, threads: int = 1) -> Attribution:
    """Compare the cases on a model and a text.

    Args:
        store: packed as f32, so that quantising is a step like the others.
        windows: at least two, no longer than the model's context.
        found: what to compare with what.
        threads: of the engine; they change no figure.

    Raises:
        EStreamError: a store of another layout, or fewer than two windows.
    """
    if any(set(record.shape.layouts) != {"f32"} for record in store.classes):
        raise EStreamError(f"{store.path} is quantised already: attribution needs it packed with --quant f32")
    if len(windows) < 2:
        raise EStreamError("attribution needs at least two windows, to say how sure a difference is")
    variants = dict.fromkeys([OFF, *(s for case in found for s in (case.reference, case.switches))])
    runs = {each: _run(store, windows, each, threads) for each in variants}
    errors = _local_errors(store, windows, found, threads)
    rows = tuple(
        _row(case, runs[case.switches], runs[case.reference], windows, error)
        for case, error in zip(found, errors, strict=True)
    )
    tokens = sum(map(len, windows))
    cost = sum(float(token_bits(p, w).sum()) for p, w in zip(runs[OFF].logprobs, windows, strict=True))
    router, origin = store.spec.router, str(store.origin["checkpoint"])
    size = sum(window.size_bytes for window in windows)
    return Attribution(origin, router.renormalise, len(windows), tokens, tokens * router.top_k, cost / size, rows)


def _settings(store: Store, windows: Sequence[Window], threads: int) -> dict[str, Any]:
    """A layer is one invocation, which makes float64 sums of whole layers (`experts.switched`)."""
    capacity = max(map(len, windows)) * store.spec.router.top_k
    return {"group_size": store.spec.experts, "resident": True, "route_capacity": capacity, "threads": threads}


def _local_errors(
    store: Store, windows: Sequence[Window], found: Sequence[Case], threads: int
) -> list[NDArray[np.float64]]:
    """`Row.layer_error` of each case."""
    local = LocalErrors(found, store.spec.layers)
    with PrefillEngine.open(
        store, executor=watched(switched(OFF), local.see), **_settings(store, windows, threads)
    ) as engine:
        local.begin()  # after what kernels are warmed up with
        for window in windows:
            engine.prefill(window.ids[:-1])
    return local.errors


def _run(store: Store, windows: Sequence[Window], switches: Switches, threads: int) -> _Run:
    run = _Run([], [])
    with PrefillEngine.open(store, executor=switched(switches), **_settings(store, windows, threads)) as engine:
        for window in windows:
            result = engine.prefill(window.ids[:-1], want="logprobs", positions="all")
            chosen = [r.expert.reshape(len(window), -1) for _, r in sorted(result.routes.items())]
            run.logprobs.append(result.output.copy())
            run.experts.append(np.sort(np.stack(chosen), axis=-1))  # (L, n, k)
    return run


def _row(case: Case, run: _Run, reference: _Run, windows: Sequence[Window], error: NDArray[np.float64]) -> Row:
    """One comparison; `error` is that of each layer on equal inputs."""
    delta, divergence = [], []
    for window, mine, others in zip(windows, run.logprobs, reference.logprobs, strict=True):
        delta.append(float((token_bits(mine, window) - token_bits(others, window)).sum()))
        divergence.append(_divergence(others, mine))
    sizes, tokens = np.array([window.size_bytes for window in windows]), sum(map(len, windows))
    change = math.fsum(delta) / sizes.sum()
    spread = np.std(np.array(delta) / sizes, ddof=1) / math.sqrt(len(windows))
    moved = [_flips(mine, others) for mine, others in zip(run.experts, reference.experts, strict=True)]
    flips = np.sum(moved, axis=0)  # (L,)
    routes = sum(experts[0].size for experts in run.experts)
    return Row(
        group=case.group,
        name=case.name,
        on=case.switches.names,
        reference=case.reference.names,
        layer_error=tuple(error.tolist()),
        layer_flips=tuple(flips.tolist()),
        flip_share=float(flips.sum() / (routes * len(flips))),
        divergence_bits=math.fsum(divergence) / tokens,
        delta_bits_per_byte=float(change),
        standard_error=float(spread),
        perplexity_percent=100 * math.expm1(math.fsum(delta) / tokens * LOG2),
    )


def _flips(experts: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.int64]:
    """Of each layer, how many of a token's experts (L, n, k) are not among its others; their order is no matter."""
    moved = (experts[..., :, None] != others[..., None, :]).all(axis=-1)  # (L, n, k)
    return np.asarray(moved.sum(axis=(1, 2)))


def _divergence(reference: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    """Σ over positions of Σ p log2(p / q), from log-probabilities (n, V)."""
    p = reference.astype(np.float64)
    return float((np.exp(p) * (p - other)).sum() / LOG2)
