"""Rounds: every row in turn, in rotating order, all on the same inputs, and those fresh in each round."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from estream_lab.bench import rounds
from estream_lab.bench.inputs import Inputs
from estream_lab.bench.shapes import LayerShape

SHAPE = LayerShape("tiny", 32, 32, 4, 2, 3.0)


def test_the_order_begins_one_row_later_each_round() -> None:
    assert [rounds.rotated(3, turn) for turn in range(4)] == [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 1, 2]]


def test_rows_take_turns_on_inputs_that_are_fresh_each_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "SETTLE_SECONDS", 0)
    seen: list[tuple[str, bytes]] = []

    def row(name: str, seconds: float) -> Any:
        def run(inputs: Inputs) -> float:
            assert inputs.path.read_bytes().startswith(inputs.x.tobytes())
            seen.append((name, inputs.x.tobytes()))
            return seconds + len(seen)

        return SimpleNamespace(run=run)

    done: list[None] = []
    found = rounds.interleave(
        [row("a", 0.0), row("b", 0.5)],
        3,
        lambda turn: Inputs.draw(SHAPE, 5, "gaussian", turn, tmp_path / "round"),
        lambda: done.append(None),
    )
    assert [name for name, _ in seen] == list("abbaab")
    assert found == [[1, 4, 5], [2.5, 3.5, 6.5]]
    inputs = [x for _, x in seen]
    assert inputs[0] == inputs[1] and inputs[2] == inputs[3] and inputs[4] == inputs[5]
    assert len(set(inputs)) == 3 and len(done) == 6


def test_inputs_are_those_of_their_seed(tmp_path: Path) -> None:
    one, same, other = (Inputs.draw(SHAPE, 5, "gaussian", seed, tmp_path / "x") for seed in (1, 1, 2))
    assert np.array_equal(one.x, same.x) and np.array_equal(one.expert, same.expert)
    assert not np.array_equal(one.x, other.x)
    assert one.x.shape == (5, 32) and one.expert.shape == one.weight.shape == (5, 2)
