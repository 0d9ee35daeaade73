"""One layer by the recurrence and on the virtual clock, line by line."""

from collections.abc import Sequence
from typing import Protocol

import plotly.graph_objects as go

from estream_lab.viz.figures.tables import table
from estream_lab.viz.figures.theme import COLOURS, GREY, wrap


class Times(Protocol):
    """When each group was read and run: `simulate.Timetable`."""

    @property
    def a(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def d(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def s(self) -> Sequence[int]: ...  # noqa: D102
    @property
    def f(self) -> Sequence[int]: ...  # noqa: D102


SYMBOLS = {"a": "read starts", "d": "read completes", "s": "execution starts", "f": "execution completes"}


def recurrence_table(
    reads: Sequence[int], runs: Sequence[int], by_hand: Times, replayed: Times, *settings: str
) -> go.Figure:
    """A row a group: L, X, then each time as ``by_hand`` (the recurrence) has it; where ``replayed`` differs, both.

    ``settings`` go into the subtitle: schedule, T^ne, B, Q.
    """
    columns: dict[str, list[str]] = {
        "k": [str(k + 1) for k in range(len(reads))],
        "L": [str(time) for time in reads],
        "X": [str(time) for time in runs],
    }
    colours: dict[str, list[str]] = {}
    for symbol, meaning in SYMBOLS.items():
        pairs = list(zip(getattr(by_hand, symbol), getattr(replayed, symbol), strict=True))
        heading = f"{symbol}, {meaning}"
        columns[heading] = [f"{x}" if x == y else f"{x}, replayed {y}" for x, y in pairs]
        colours[heading] = [GREY if x == y else COLOURS["wait"] for x, y in pairs]
    equal = all(colour == GREY for column in colours.values() for colour in column)
    title = "Recurrence and replay: the same times" if equal else "Recurrence and replay differ"
    subtitle = wrap(["simulated from service times made up", *settings, "any unit of time"])
    return table(columns, (50, 50, 50, 160, 170, 180, 200), title, subtitle, colours)
