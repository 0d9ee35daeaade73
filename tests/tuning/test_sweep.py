"""The sweep: every configuration once a round, in an order that is drawn, going on where it was stopped."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.streaming import Store
from estream_lab.tuning import sweep as module
from estream_lab.tuning.grids import Configuration, configurations
from estream_lab.tuning.samples_file import SamplesFile, SweepSample, open_samples
from estream_lab.tuning.sweep import medians, order, subject, sweep
from tests.stores import synthetic_store

TOKENS = np.arange(12, dtype=np.int32)
GRID = configurations(10, (5, 10))  # of 5: Q1B1, Q1B2, Q2B2; of 10: Q1B1


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(synthetic_store(tmp_path_factory.mktemp("sweep")))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SamplesFile]:
    with open_samples(tmp_path / "s.jsonl", {}) as opened:
        yield opened


def test_every_configuration_runs_as_it_is_called(store: Store, file: SamplesFile) -> None:
    with PrefillEngine.open(store, group_size=5) as engine:
        logits = engine.prefill(TOKENS).logits_sha256
    found = sweep(store, TOKENS, file, GRID, 2, threads=1)
    assert [sample.configuration for sample in found] == [*order(GRID, 0), *order(GRID, 1)]
    assert [sample.round for sample in found] == [0] * 4 + [1] * 4
    for sample in found:
        assert sample.arena_bytes == sample.banks * sample.group_size * store.stride
        assert sample.logits_sha256 == logits and sample.seconds > 0 and 0 < sample.storage_idle < 1
        assert sample.peak_rss_bytes > sample.arena_bytes


def test_settings_reach_the_engine(store: Store, file: SamplesFile, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[dict[str, Any]] = []
    real = PrefillEngine.open

    def watch(store: Store, **settings: Any) -> PrefillEngine:
        opened.append(settings)
        return real(store, **settings)

    monkeypatch.setattr(PrefillEngine, "open", watch)
    sweep(store, TOKENS, file, GRID[2:3], 1, threads=1, read_bandwidth=5e7)
    assert opened == [{"queue_depth": 2, "banks": 2, "group_size": 5, "threads": 1, "read_bandwidth": 5e7}]


def made(number: int, configuration: Configuration, seconds: float = 1.0, logits: str = "same") -> SweepSample:
    return SweepSample(number, *configuration, seconds, 100, 40, 0.5, logits)


def test_what_was_stopped_goes_on_where_it_was(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, Configuration]] = []

    def measure(_: Store, __: np.ndarray, number: int, configuration: Configuration, **___: Any) -> SweepSample:
        if len(asked) == 6 and "stop" in stops:
            raise KeyboardInterrupt(stops.pop())
        asked.append((number, configuration))
        return made(number, configuration)

    stops = ["stop"]
    monkeypatch.setattr(module, "_measure", measure)
    with pytest.raises(KeyboardInterrupt), open_samples(tmp_path / "s.jsonl", {}) as file:
        sweep(store, TOKENS, file, GRID, 3)
    with open_samples(tmp_path / "s.jsonl", {}) as file:
        found = sweep(store, TOKENS, file, GRID, 3)
    assert asked == [(number, each) for number in range(3) for each in order(GRID, number)]
    assert [(sample.round, sample.configuration) for sample in found] == asked
    with open_samples(tmp_path / "s.jsonl", {}) as file:  # more rounds are added, fewer cost nothing
        assert len(sweep(store, TOKENS, file, GRID, 2)) == 12
        assert len(sweep(store, TOKENS, file, GRID, 4)) == 16
    assert asked[12:] == [(3, each) for each in order(GRID, 3)]


def test_rounds_are_drawn_anew_and_the_same_every_time() -> None:
    grid = configurations(64)
    rounds = [order(grid, number) for number in range(4)]
    assert all(sorted(each) == sorted(grid) for each in rounds)
    assert rounds == [order(grid, number) for number in range(4)]
    assert len({tuple(each) for each in rounds}) == 4
    places = np.mean([[each.index(c) for c in grid] for each in (order(grid, n) for n in range(60))], axis=0)
    assert abs(places - 26).max() < 9  # no configuration is always early: a mean place scatters by 2


def test_configurations_that_disagree_about_the_logits_are_a_fault(
    store: Store, file: SamplesFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = iter(["same", "same", "other"])
    monkeypatch.setattr(module, "_measure", lambda _, __, number, each, **___: made(number, each, logits=next(logits)))
    with pytest.raises(EStreamError, match="two configurations gave different logits"):
        sweep(store, TOKENS, file, GRID, 1)
    assert len(file.samples) == 2


def test_the_median_of_each_configuration_counts() -> None:
    one, other = GRID[:2]
    samples = [made(0, one, 3.0), made(0, other, 1.0), made(1, one, 1.0), made(1, other, 4.0), made(2, one, 2.0)]
    assert medians(samples) == {one: 2.0, other: 2.5}


def test_sweeps_of_other_tokens_or_settings_are_of_another_subject(store: Store) -> None:
    def of(tokens: np.ndarray = TOKENS, grid: tuple[Configuration, ...] = GRID, **more: Any) -> dict[str, Any]:
        return subject(store, tokens, grid, **{"prompt": "p", "threads": 1, "read_bandwidth": None} | more)

    assert of() == of()
    others = [of(TOKENS + 1), of(grid=GRID[:2]), of(prompt="q"), of(threads=2), of(read_bandwidth=1e6)]
    assert all(each != of() for each in others)
