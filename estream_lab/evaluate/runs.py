"""A model's way through a text under a variant of the arithmetic, and what lies between two such ways."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine
from estream_lab.evaluate.bits import Window, divergence_bits, log_softmax, token_bits
from estream_lab.experts.executors import Executor
from estream_lab.streaming import Store

LN2 = math.log(2)


@dataclass(frozen=True)
class Run:
    """What a variant makes of each window.

    Attributes:
        logits: float32 (n, V) of each.
        experts: int32 (L, n, k) of each, a token's in ascending order.
    """

    logits: tuple[NDArray[np.float32], ...]
    experts: tuple[NDArray[np.int32], ...]

    def bits(self, windows: Sequence[Window]) -> float:
        """What the windows cost, in bits."""
        return math.fsum(
            bits for z, window in zip(self.logits, windows, strict=True) for bits in token_bits(log_softmax(z), window)
        )


@dataclass(frozen=True)
class Change:
    """What differs between a run and its reference, over all windows.

    Attributes:
        layer_flips: routes of each layer that visit an expert which the token doesn't visit in the reference run.
        flip_share: of all layers' routes.
        logits_error: ‖z - z_ref‖ / ‖z_ref‖ of the logits z of all positions.
        divergence_bits: Kullback-Leibler divergence of the next-token distribution from the reference's, mean.
        delta_bits_per_byte: change of the text's cost. standard_error: of it, from the changes of single tokens, each
            read in both runs, as if they were independent.
        perplexity_percent: the change of perplexity a token that this is. perplexity_error: its standard error.
    """

    layer_flips: tuple[int, ...]
    flip_share: float
    logits_error: float
    divergence_bits: float
    delta_bits_per_byte: float
    standard_error: float
    perplexity_percent: float
    perplexity_error: float


def size_bytes(windows: Sequence[Window]) -> float:
    """Bytes of all predicted tokens."""
    return math.fsum(window.size_bytes for window in windows)


def settings(store: Store, windows: Sequence[Window], threads: int) -> dict[str, Any]:
    """Of an engine in which a layer is one invocation and its bank: float64 sums are of whole layers then."""
    capacity = max(map(len, windows)) * store.spec.router.top_k
    return {"group_size": store.spec.experts, "resident": True, "route_capacity": capacity, "threads": threads}


def run(
    store: Store,
    windows: Sequence[Window],
    executor: Executor,
    *,
    threads: int = 1,
    begin: Callable[[], None] = lambda: None,
) -> Run:
    """Read each window with an empty context.

    Args:
        store: the model.
        windows: no longer than its context.
        executor: of its experts.
        threads: of the engine; they change no bit.
        begin: called when kernels are warm, before the first window.
    """
    logits, experts = [], []
    with PrefillEngine.open(store, executor=executor, **settings(store, windows, threads)) as engine:
        begin()
        for window in windows:
            result = engine.prefill(window.ids[:-1], positions="all")
            chosen = [r.expert.reshape(len(window), -1) for _, r in sorted(result.routes.items())]
            logits.append(result.output.copy())
            experts.append(np.sort(np.stack(chosen), axis=-1))  # (L, n, k)
    return Run(tuple(logits), tuple(experts))


def change(mine: Run, reference: Run, windows: Sequence[Window]) -> Change:
    """What a run changes against its reference, over the windows that both read."""
    costs, divergence = [], []
    for window, z, others in zip(windows, mine.logits, reference.logits, strict=True):
        p, q = log_softmax(others), log_softmax(z)
        costs.append(token_bits(q, window) - token_bits(p, window))
        divergence.append(divergence_bits(p, q))
    delta = np.concatenate(costs)  # (n,) bits of each token
    mean, spread = math.fsum(delta) / len(delta), float(np.std(delta, ddof=1)) / math.sqrt(len(delta))
    share = len(delta) / size_bytes(windows)  # tokens a byte
    moved = [flips(e, others) for e, others in zip(mine.experts, reference.experts, strict=True)]
    layer_flips = np.sum(moved, axis=0)  # (L,)
    return Change(
        layer_flips=tuple(layer_flips.tolist()),
        flip_share=float(layer_flips.sum() / sum(experts.size for experts in mine.experts)),
        logits_error=_relative(mine.logits, reference.logits),
        divergence_bits=math.fsum(np.concatenate(divergence)) / len(delta),
        delta_bits_per_byte=mean * share,
        standard_error=spread * share,
        perplexity_percent=100 * math.expm1(mean * LN2),
        perplexity_error=100 * math.exp(mean * LN2) * spread * LN2,
    )


def flips(experts: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.int64]:
    """Of each layer, how many of a token's experts (L, n, k) are not among its others; their order is no matter."""
    moved = (experts[..., :, None] != others[..., None, :]).all(axis=-1)  # (L, n, k)
    return np.asarray(moved.sum(axis=(1, 2)))


def _relative(found: Sequence[NDArray[np.float32]], others: Sequence[NDArray[np.float32]]) -> float:
    """‖found - others‖ / ‖others‖ over all arrays."""
    pairs = [(a.astype(np.float64), b.astype(np.float64)) for a, b in zip(found, others, strict=True)]
    return math.sqrt(
        math.fsum(np.square(a - b).sum() for a, b in pairs) / math.fsum(np.square(b).sum() for _, b in pairs)
    )
