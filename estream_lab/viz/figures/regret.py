"""Predicted times beside swept ones, and what trusting the predictions costs at every budget."""

from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from estream_lab.tuning.configure import peak_depth, select
from estream_lab.tuning.grids import Configuration
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.regret import Budget, budgets
from estream_lab.viz.figures.choices import COLOURSCALE, HEAT_ROW, MIB, provenance, simulated
from estream_lab.viz.figures.theme import COLOURS, FAINT, PANEL_TITLE, dress, provenance_line

CURVES = 190  # px, of the regret's panel
BETWEEN = 76
MOST = 50.0  # per cent above the best, where the colours end
LINES = {"literal": (COLOURS["expert"], "solid"), "shared": (COLOURS["storage"], "dash")}


def regret_surface(
    profile: Profile, seconds: Mapping[Configuration, float], curves: Mapping[str, Sequence[tuple[int, float]]]
) -> go.Figure:
    """Above, per cent over the best of all at Q0: predicted by the literal recurrence, and swept. Below, regret.

    Beside the curves (`tuning.regret.regret_curves`) stand the three budgets that are fixed beforehand.
    """
    three = budgets(tuple(seconds), profile.slot_bytes, profile.other_bytes)
    swept = "simulated" if simulated(profile) else "measured"
    sizes = [str(size) for size in profile.group_sizes]
    heat, height = HEAT_ROW * len(sizes), HEAT_ROW * len(sizes) + BETWEEN + CURVES
    figure = make_subplots(
        rows=2,
        cols=2,
        specs=[[{}, {}], [{"colspan": 2}, None]],
        row_heights=[heat, CURVES],
        vertical_spacing=BETWEEN / height,
        horizontal_spacing=0.05,
        subplot_titles=[
            "predicted, % over the best",
            f"{swept}, % over the best",
            f"regret of the choices, % ({swept})",
        ],
    )
    for note, x in zip(figure.layout.annotations, (0, 0.525, 0), strict=True):
        note.update(x=x, xanchor="left", font_size=13)
    for column, (name, grid) in enumerate(
        {"predicted": _predicted(profile, three[-1]), swept: _swept(profile, seconds)}.items(), 1
    ):
        figure.add_trace(_heat(name, grid, sizes, heat), row=1, col=column)
    for model, curve in curves.items():
        figure.add_trace(_line(model, curve), row=2, col=1)
    for budget in three:
        figure.add_vline(x=budget.bytes / MIB, line={"color": FAINT, "dash": "dot", "width": 2}, row=2, col=1)
        figure.add_annotation(
            x=budget.bytes / MIB, y=1, yref="y3 domain", xref="x3", text=budget.name, showarrow=False, xanchor="right",
            yanchor="top", xshift=-3,
        )  # fmt: skip
    figure.update_yaxes(title_text="G", type="category", showgrid=False, ticks="", row=1, col=1)
    figure.update_yaxes(type="category", showgrid=False, ticks="", showticklabels=False, row=1, col=2)
    figure.update_xaxes(title={"text": "banks B", "standoff": 4}, showgrid=False, ticks="", row=1)
    figure.update_xaxes(title_text="budget, MiB", row=2, col=1)
    worst = 100 * max(regret for curve in curves.values() for _, regret in curve)
    figure.update_yaxes(range=[-0.05 * max(worst, 1), 1.25 * max(worst, 1)], row=2, col=1)
    dress(
        figure,
        f"What trusting the model costs: predicted and {swept}",
        provenance_line(provenance(profile)),
        height,
        PANEL_TITLE,
    )
    return figure


def _predicted(profile: Profile, budget: Budget) -> NDArray[np.float64]:
    """Seconds, (sizes, banks), by the literal model; NaN where a layer has fewer groups."""
    weighed = select(profile, budget.bytes).candidates
    grid = np.full((len(weighed), max(each.groups for each in weighed)), np.nan)
    for row, each in enumerate(weighed):
        grid[row, : each.groups] = each.seconds_by_banks
    return grid


def _swept(profile: Profile, seconds: Mapping[Configuration, float]) -> NDArray[np.float64]:
    """Seconds, (sizes, banks), at min(Q0, B)."""
    sizes, depth = profile.group_sizes, peak_depth(profile)
    grid = np.full((len(sizes), max(map(profile.groups, sizes))), np.nan)
    for each, value in seconds.items():
        if each.queue_depth == min(depth, each.banks):
            grid[sizes.index(each.group_size), each.banks - 1] = value
    return grid


def _heat(name: str, grid: NDArray[np.float64], sizes: Sequence[str], height: int) -> go.Heatmap:
    return go.Heatmap(
        z=100 * (grid / np.nanmin(grid) - 1),
        x=np.arange(1, grid.shape[1] + 1),
        y=sizes,
        customdata=grid,
        name=name,
        zmin=0,
        zmax=MOST,
        **COLOURSCALE,
        xgap=2,
        ygap=2,
        hoverongaps=False,
        colorbar={
            "title": {"text": "%", "font": {"size": 12}}, "outlinewidth": 0, "thickness": 12, "len": height,
            "lenmode": "pixels", "y": 1, "yanchor": "top", "nticks": 4,
        },
        hovertemplate=f"B=%{{x}} G=%{{y}}<br>%{{customdata:.4f}} s {name}, %{{z:.1f}} % over the best<extra></extra>",
    )  # fmt: skip


def _line(model: str, curve: Sequence[tuple[int, float]]) -> go.Scatter:
    colour, dash = LINES[model]
    return go.Scatter(
        x=[size / MIB for size, _ in curve],
        y=[100 * regret for _, regret in curve],
        mode="lines+markers",
        name=f"{model} model",
        line={"shape": "hv", "color": colour, "dash": dash, "width": 2},
        marker={"size": 5},
        hovertemplate=f"{model}: %{{y:.2f}} % at %{{x:.1f}} MiB<extra></extra>",
    )
