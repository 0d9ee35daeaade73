"""The oracle of the configuration model: every supported (Q, B, G), measured on the real engine."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray
from tqdm import tqdm

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.machine import available_cpus, processor
from estream_lab.streaming import Store
from estream_lab.tuning.grids import Configuration
from estream_lab.tuning.pooling import pooled
from estream_lab.tuning.samples_file import SamplesFile, SweepSample

SEED = 0
PAUSE_SECONDS = 0.1  # between two drawings of a bar


def subject(
    store: Store,
    tokens: NDArray[np.int32],
    configurations: Sequence[Configuration],
    *,
    prompt: str,
    threads: int | None,
    read_bandwidth: float | None,
) -> dict[str, Any]:
    """What a sweep measures, as its file says: two sweeps that agree in it may share a file."""
    return {
        "machine": processor(),
        "store_checksum": store.checksum,
        "model": str(store.origin.get("checkpoint", "")),
        "prompt": prompt,
        "tokens": len(tokens),
        "tokens_checksum": xxhash.xxh3_64_hexdigest(np.ascontiguousarray(tokens).data),
        "threads": threads or available_cpus(),
        "read_bandwidth": float(read_bandwidth or 0.0),
        "seed": SEED,
        "configurations": [list(each) for each in configurations],
    }


def order(configurations: Sequence[Configuration], number: int) -> list[Configuration]:
    """The order of a round, drawn anew for each, so that no configuration keeps its neighbours or its place."""
    drawn = np.random.default_rng((SEED, number)).permutation(len(configurations))
    return [configurations[i] for i in drawn]


def sweep(
    store: Store,
    tokens: NDArray[np.int32],
    file: SamplesFile,
    configurations: Sequence[Configuration],
    rounds: int,
    *,
    threads: int | None = None,
    read_bandwidth: float | None = None,
    progress: bool = False,
) -> list[SweepSample]:
    """Measure what the file doesn't have yet of so many rounds, in each of which every configuration runs once.

    Each sample is the second request of an engine of its own: the first only touches memory.

    Args:
        store: of the model. tokens: (T,), the prompt.
        file: takes every sample as it comes; `subject` says what it is of.
        configurations: to measure. rounds: of them, those in the file included.
        threads, read_bandwidth: of every engine. progress: a bar on standard error.

    Returns:
        All samples, those of earlier runs first.

    Raises:
        EStreamError: settings that the store can't be run with, storage that fails, or two configurations whose logits
            differ.
    """
    done = {(sample.round, sample.configuration) for sample in file.samples}
    line = [(number, each) for number in range(rounds) for each in order(configurations, number)]
    todo = [each for each in line if each not in done]
    with tqdm(
        total=len(line), initial=len(line) - len(todo), unit="run", desc="sweep", leave=False,
        mininterval=PAUSE_SECONDS, disable=not progress,
    ) as bar:  # fmt: skip
        for number, configuration in todo:
            sample = _measure(store, tokens, number, configuration, threads=threads, read_bandwidth=read_bandwidth)
            if file.samples and sample.logits_sha256 != file.samples[0].logits_sha256:
                raise EStreamError(
                    "two configurations gave different logits: this is a fault of the program, please report it"
                )
            file.add(sample)
            bar.update()
    return file.samples


def _measure(
    store: Store, tokens: NDArray[np.int32], number: int, configuration: Configuration, **settings: Any
) -> SweepSample:
    with PrefillEngine.open(store, **configuration._asdict(), **settings) as engine:
        engine.prefill(tokens)
        result = engine.prefill(tokens)
    return SweepSample(
        number,
        *configuration,
        result.seconds,
        result.peak_rss_bytes,
        result.arena_bytes,
        result.storage_idle,
        result.logits_sha256,
    )


def medians(samples: Sequence[SweepSample]) -> dict[Configuration, float]:
    """The median seconds of every configuration that was measured."""
    return {configuration: median(seconds) for configuration, seconds in _by_configuration(samples).items()}


def undisturbed_seconds(samples: Sequence[SweepSample]) -> dict[Configuration, float]:
    """The median seconds of the faster half of every configuration's samples, for what holds configurations to each
    other: see `pooling.undisturbed`.
    """
    return {configuration: float(pooled(seconds)) for configuration, seconds in _by_configuration(samples).items()}


def _by_configuration(samples: Sequence[SweepSample]) -> dict[Configuration, list[float]]:
    found: dict[Configuration, list[float]] = {}
    for sample in samples:
        found.setdefault(sample.configuration, []).append(sample.seconds)
    return found
