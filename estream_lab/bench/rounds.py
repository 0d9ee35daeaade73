"""Rows in turn: every round takes each row once, in an order of its own, so that what else this computer does falls on
all of them, and none always follows the same other.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from estream_lab.bench.competitors import Competitors
from estream_lab.bench.load import OtherLoad
from estream_lab.kernels.host.peak import fma_peak
from estream_lab.kernels.host.threads import thread_limit

_T = TypeVar("_T")

SETTLE_SECONDS = 0.1
"""Before each run: where a peer isn't stopped between its turns, its threads spin for up to 50 ms after their work."""

AWAKE_SECONDS = 0.05
"""Then every processor multiplies: from its sleep it takes milliseconds to full speed, half as much as a small row."""

_ORDER = 20260911  # seed


def order(count: int, turn: int) -> list[int]:
    """The order of round `turn`: a permutation of 0 to count - 1, the same in every run of a bench."""
    return [int(i) for i in np.random.default_rng((_ORDER, turn)).permutation(count)]


def awaken(seconds: float) -> None:
    """Have every processor of this process busy for so long."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        fma_peak(thread_limit(), 1)


@dataclass(frozen=True)
class Timed:
    """What the rounds found.

    Attributes:
        seconds: of each row, round by round.
        contended: the same while competitors ran; of each row nothing where there were none.
        other_load: of each round the share of this computer's time that others took, see `load.OtherLoad`.
    """

    seconds: list[list[float]]
    contended: list[list[float]]
    other_load: list[float]


def interleave(
    runs: Sequence[Callable[[_T], float]],
    rounds: int,
    draw: Callable[[int], _T],
    done: Callable[[], None],
    *,
    processes: Sequence[int] = (),
    competitors: Competitors | None = None,
) -> Timed:
    """Time every row `rounds` times; with competitors as often again while these run, in the same rounds.

    Args:
        runs: of the rows, prepared and warm: seconds of one call.
        rounds: of every row.
        draw: fresh inputs of a round; all rows of a round compute on the same.
        done: called after every run.
        processes: ids of those that belong to the bench beside this one and the competitors.
        competitors: stopped but for their rows' runs.
    """
    found = Timed([[] for _ in runs], [[] for _ in runs], [])
    busy = competitors.processes if competitors else []
    load = OtherLoad([*processes, *busy])
    for turn in range(rounds):
        inputs = draw(turn)
        load.lap()  # drawing is no part of a round
        for place in order(len(runs) * (2 if competitors else 1), turn):
            i, contended = place % len(runs), place >= len(runs)
            time.sleep(SETTLE_SECONDS)
            awaken(AWAKE_SECONDS)
            if competitors and contended:
                with competitors.running():
                    found.contended[i].append(runs[i](inputs))
            else:
                found.seconds[i].append(runs[i](inputs))
            done()
        found.other_load.append(load.lap())
    return found
