"""Rounds: every row in turn, in an order of each round, all on the same inputs, and those fresh in each round."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from estream_lab.bench import rounds
from estream_lab.bench.competitors import Competitors
from estream_lab.bench.inputs import Inputs
from estream_lab.bench.load import OtherLoad
from estream_lab.bench.shapes import LayerShape
from estream_lab.kernels.host.threads import thread_limit

SHAPE = LayerShape("tiny", 32, 32, 4, 2, 3.0)


def test_every_round_takes_every_row_once_in_an_order_of_its_own() -> None:
    orders = [rounds.order(9, turn) for turn in range(50)]
    assert all(sorted(order) == list(range(9)) for order in orders)
    assert len(set(map(tuple, orders))) == 50
    assert orders == [rounds.order(9, turn) for turn in range(50)]  # of every run


def test_no_row_always_follows_the_same_other() -> None:
    before = {(order[i - 1], order[i]) for turn in range(50) for order in [rounds.order(9, turn)] for i in range(1, 9)}
    assert min(sum(after == row for _, after in before) for row in range(9)) == 8  # each comes after every other


def test_every_processor_is_awake_when_a_row_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(rounds, "AWAKE_SECONDS", 0.002)
    done: list[object] = []
    monkeypatch.setattr(rounds, "fma_peak", lambda threads, _: done.append(threads))
    rounds.interleave([lambda turn: done.append("row") or 1.0] * 2, 2, lambda turn: turn, lambda: None)
    assert [key for key, _ in groupby(done)] == [thread_limit(), "row"] * 4


def test_rows_take_turns_on_inputs_that_are_fresh_each_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(rounds, "AWAKE_SECONDS", 0)
    seen: list[tuple[int, bytes]] = []

    def row(number: int) -> Callable[[Inputs], float]:
        def run(inputs: Inputs) -> float:
            assert inputs.path.read_bytes().startswith(inputs.x.tobytes())
            seen.append((number, inputs.x.tobytes()))
            return number + len(seen) / 10

        return run

    done: list[None] = []
    found = rounds.interleave(
        [row(0), row(1)],
        3,
        lambda turn: Inputs.draw(SHAPE, 5, "gaussian", turn, tmp_path / "round"),
        lambda: done.append(None),
    )
    wanted = [i for turn in range(3) for i in rounds.order(2, turn)]
    assert [number for number, _ in seen] == wanted
    times = [i + at / 10 for at, i in enumerate(wanted, 1)]
    assert found.seconds == [[time for time, i in zip(times, wanted, strict=True) if i == n] for n in range(2)]
    assert found.contended == [[], []]
    inputs = [x for _, x in seen]
    assert inputs[0] == inputs[1] and inputs[2] == inputs[3] and inputs[4] == inputs[5]
    assert len(set(inputs)) == 3 and len(done) == 6


def test_beside_competitors_every_row_is_timed_as_often_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(rounds, "AWAKE_SECONDS", 0)
    busy = False

    class Switch(Competitors):
        @contextmanager
        def running(self) -> Iterator[None]:
            nonlocal busy
            busy = True
            yield
            busy = False

    with Switch(0) as competitors:
        runs = [lambda _: 10.0 + busy, lambda _: 20.0 + busy]
        found = rounds.interleave(runs, 3, lambda turn: None, lambda: None, competitors=competitors)
    assert found.seconds == [[10] * 3, [20] * 3] and found.contended == [[11] * 3, [21] * 3]


def test_the_load_of_others_is_told_of_each_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(rounds, "AWAKE_SECONDS", 0)
    laps = iter([0.9, 0.1, 0.8, 0.2])  # what was before a round doesn't count
    monkeypatch.setattr(OtherLoad, "lap", lambda load: next(laps))
    assert rounds.interleave([lambda _: 1.0], 2, lambda turn: None, lambda: None).other_load == [0.1, 0.2]


def test_inputs_are_those_of_their_seed(tmp_path: Path) -> None:
    one, same, other = (Inputs.draw(SHAPE, 5, "gaussian", seed, tmp_path / "x") for seed in (1, 1, 2))
    assert np.array_equal(one.x, same.x) and np.array_equal(one.expert, same.expert)
    assert not np.array_equal(one.x, other.x)
    assert one.x.shape == (5, 32) and one.expert.shape == one.weight.shape == (5, 2)
