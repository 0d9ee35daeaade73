"""Runs to compare: the settings take turns, so that a busy moment of the computer hits all of them alike."""

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.engine import PrefillEngine, PrefillResult
from estream_lab.streaming import Store


def measure(
    store: Store | Path | str,
    tokens: Sequence[int] | NDArray[np.int32],
    runs: Mapping[str, Mapping[str, Any]],
    repeats: int = 1,
    **common: Any,
) -> dict[str, PrefillResult]:
    """Prefill ``tokens`` under each of the labelled settings; of its ``repeats`` runs the one of median time is kept.

    Args:
        store, tokens: the model and the prompt.
        runs: label to `EngineSettings` of its own, which go before ``common`` ones.
        repeats: runs of each; a trace's provenance says of how many it is the median (`runs`).

    Raises:
        EStreamError: as the engine does.
    """
    opened = store if isinstance(store, Store) else Store(Path(store))
    results: dict[str, list[PrefillResult]] = {label: [] for label in runs}
    with ExitStack() as stack, _no_collection():
        engines = {
            label: stack.enter_context(PrefillEngine.open(opened, **{**common, **own})) for label, own in runs.items()
        }
        for _ in range(repeats):
            for label, engine in engines.items():
                results[label].append(engine.prefill(tokens))
    return {label: _median(found) for label, found in results.items()}


@contextmanager
def _no_collection() -> Iterator[None]:
    """No full garbage collection meanwhile: in a notebook with its many objects one stops all threads for long."""
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _median(results: list[PrefillResult]) -> PrefillResult:
    """The run of median time, the slower of two in the middle."""
    result = sorted(results, key=lambda each: each.seconds)[len(results) // 2]
    if len(results) == 1:
        return result
    return replace(result, trace=replace(result.trace, provenance={**result.trace.provenance, "runs": len(results)}))
