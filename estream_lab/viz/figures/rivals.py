"""EStream beside rival ways to run a request: time against memory, a mark a contestant."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from estream_lab.errors import EStreamError
from estream_lab.simulate.rivals import EStream, Outcome
from estream_lab.trace import Provenance
from estream_lab.viz.figures.round_numbers import round_numbers
from estream_lab.viz.figures.theme import COLOURS, FAINT, GREY, dress, key, mebibytes, provenance_line

HEIGHT, LINE_PX = 380, 21
"""Of the plot and of a name beside it, in px."""

NAMES_SHARE = 0.44
"""Share of the plot's width that the names take, right of the marks."""

OURS, OTHERS = COLOURS["storage"], COLOURS["expert"]


def rival_marks(
    outcomes: Sequence[Outcome], budget_bytes: int, provenance: Provenance, refused: Sequence[str] = ()
) -> go.Figure:
    """Request time against peak memory of every contestant that ran, both logarithmic, with the budget.

    Names stand in order of time; a hollow mark is over the budget.

    Args:
        outcomes: of at least one contestant. budget_bytes: M_max. provenance: of all of them.
        refused: names of those who didn't run.

    Raises:
        EStreamError: nobody ran.
    """
    if not outcomes:
        raise EStreamError("nobody ran within the budget, so there is nothing to draw: raise it, or run those over it")
    outcomes = sorted(outcomes, key=lambda outcome: (outcome.seconds, outcome.contestant))
    x = np.log10([outcome.peak_bytes / 2**30 for outcome in outcomes])  # (N,)
    y = np.log10([outcome.seconds for outcome in outcomes])
    budget = np.log10(budget_bytes / 2**30)
    left, right = min(*x, budget) - 0.03, max(*x, budget) + 0.03
    far = left + (right - left) / (1 - NAMES_SHARE)
    names = right + 0.03 * (far - left)
    low, high = _range(y)
    heights = spread(y, LINE_PX * (high - low) / HEIGHT, low, high)
    figure = go.Figure()
    for outcome, across, up, height in zip(outcomes, x, y, heights, strict=True):
        _mark(figure, outcome, (across, up), (names, height))
    figure.add_vline(x=10**budget, line={"color": GREY, "dash": "dot"})
    text = f"budget {mebibytes(budget_bytes)}"
    figure.add_annotation(
        x=budget, y=1, yref="paper", text=text, xanchor="left", yanchor="bottom", showarrow=False, xshift=-20
    )
    figure.update_xaxes(
        type="log", range=[left, far], tickvals=round_numbers(left, right), title_text="peak memory, GiB"
    )
    figure.update_yaxes(
        type="log", range=[low, high], tickvals=round_numbers(low, high), title_text="seconds a request", showgrid=False
    )
    lines = [provenance_line(provenance), key({"EStream": OURS, "others": OTHERS}) + "  ○ over the budget"]
    if refused:
        lines.append(f"refused, over the budget: {', '.join(refused)}")
    dress(figure, "Time against memory", "<br>".join(lines), HEIGHT, 20)
    return figure.update_layout(showlegend=False)


def spread(wanted: NDArray[np.float64], gap: float, low: float, high: float) -> NDArray[np.float64]:
    """Places as near as may be to the ``wanted`` ones, which rise, at least ``gap`` apart and within low … high.

    Where there are too many of them they are evenly spaced instead, closer than ``gap``.
    """
    count = len(wanted)
    if count < 2 or gap * (count - 1) > high - low:
        return np.linspace(low, high, count) if count > 1 else wanted
    steps = gap * np.arange(count)
    upwards = np.maximum.accumulate(wanted - steps)  # nobody below the one before
    return np.asarray(np.clip(upwards, low, high - steps[-1]) + steps)


def _mark(figure: go.Figure, outcome: Outcome, at: tuple[float, float], name: tuple[float, float]) -> None:
    """A contestant's mark, at log10 of its values, and a line from it to its name."""
    colour = OURS if outcome.contestant.startswith(EStream.__name__) else OTHERS
    rows = outcome.rows
    told = (
        f"<b>{outcome.contestant}</b> {outcome.settings}<br>{outcome.seconds:.3f} s, {mebibytes(outcome.peak_bytes)} "
        f"at most, {mebibytes(outcome.bytes_read)} read<br>{rows.rows} rows for {rows.routes} routes, {rows.dropped} "
        f"dropped<br>{outcome.kind}"
    )
    figure.add_scatter(
        x=[10 ** at[0], 10 ** name[0]],
        y=[10 ** at[1], 10 ** name[1]],
        mode="lines",
        line={"color": FAINT, "width": 1},
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=[10 ** at[0]],
        y=[10 ** at[1]],
        name=outcome.contestant,
        mode="markers",
        marker={
            "color": colour,
            "size": 10,
            "opacity": 0.85,
            "symbol": "circle-open" if outcome.over_budget else "circle",
        },
        hovertemplate=f"{told}<extra></extra>",
    )
    figure.add_annotation(
        x=name[0],
        y=name[1],
        text=f"{outcome.contestant} <b>{_seconds(outcome.seconds)} s</b>{_lost(outcome)}",
        xanchor="left",
        showarrow=False,
        xshift=2,
    )


def _seconds(value: float) -> str:
    """To three digits, more before the point."""
    return f"{value:.{max(0, 2 - int(np.floor(np.log10(value))))}f}"


def _lost(outcome: Outcome) -> str:
    share = outcome.rows.dropped / max(outcome.rows.routes, 1)
    return f", {share:.1%} dropped" if share else ""


def _range(y: NDArray[np.float64]) -> tuple[float, float]:
    """The logarithmic axis, with room for a mark at both ends."""
    least, most = float(y.min()), float(y.max())
    around = max(0.05 * (most - least), 0.1)
    return least - around, most + around
