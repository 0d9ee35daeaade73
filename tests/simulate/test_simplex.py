"""The downhill simplex finds minima, its bound, and the same on every run."""

import numpy as np
import pytest

from estream_lab.simulate.simplex import Point, minimise


def test_it_finds_a_minimum_and_a_kink() -> None:
    found = minimise(lambda x: float(((x - [1, 2, 3]) ** 2).sum()), [0, 0, 0], [1, 1, 1], tolerance=1e-12)
    assert found == pytest.approx([1, 2, 3], abs=1e-4)
    assert minimise(lambda x: abs(float(x[0]) - 2.0), [5.0], [1.0])[0] == pytest.approx(2, abs=1e-5)
    curved = minimise(lambda x: float((1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2), [0.2, 2], [0.5, 0.5])
    assert curved == pytest.approx([1, 1], abs=0.02)


def test_it_stays_at_the_bound_and_asks_nothing_outside() -> None:
    asked: list[Point] = []

    def of(x: Point) -> float:
        asked.append(x)
        return float((x[0] + 1) ** 2 + (x[1] - 1) ** 2)

    assert minimise(of, [1, 0], [1, 1], tolerance=1e-10) == pytest.approx([0, 1], abs=1e-4)
    assert np.min(asked) == 0


def test_it_ends_after_so_many_evaluations_with_the_best_so_far() -> None:
    asked: list[float] = []

    def of(x: Point) -> float:
        asked.append(float(x[0]))
        return -float(x[0])

    found = minimise(of, [1.0], [1.0], most=20)
    assert 20 <= len(asked) <= 22 and found[0] == max(asked)
