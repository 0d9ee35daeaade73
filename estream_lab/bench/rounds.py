"""Rows in turn: every round takes each row once, in rotating order: what else this computer does falls on all."""

import time
from collections.abc import Callable, Sequence

from estream_lab.bench.inputs import Inputs
from estream_lab.bench.rows import Row

SETTLE_SECONDS = 0.1
"""Between two rows: a peer's threads spin for up to 50 ms after their work, before they sleep."""


def rotated(count: int, turn: int) -> list[int]:
    """The order of round `turn`: it begins one row later than the one before."""
    first = turn % count
    return [*range(first, count), *range(first)]


def interleave(
    rows: Sequence[Row], rounds: int, draw: Callable[[int], Inputs], done: Callable[[], None]
) -> list[list[float]]:
    """Time every row `rounds` times.

    Args:
        rows: prepared and warm.
        rounds: runs of every row.
        draw: fresh inputs of a round; all rows of a round compute on the same.
        done: called after every run.

    Returns:
        Of each row its seconds, round by round.
    """
    seconds: list[list[float]] = [[] for _ in rows]
    for turn in range(rounds):
        inputs = draw(turn)
        for i in rotated(len(rows), turn):
            time.sleep(SETTLE_SECONDS)
            seconds[i].append(rows[i].run(inputs))
            done()
    return seconds
