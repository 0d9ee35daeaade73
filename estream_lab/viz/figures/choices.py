"""What a budget is best spent on: predicted times over group sizes and banks, what fits, and what is chosen."""

from collections.abc import Sequence
from itertools import cycle
from typing import Any

import numpy as np
from numpy.typing import NDArray

from estream_lab.trace import Provenance
from estream_lab.tuning.configure import Selection, Weighed
from estream_lab.tuning.profile import Profile
from estream_lab.viz.figures.theme import AXIS, CLEAR, COLOURS, GREY, INK, SEQUENCE, dressing, key, provenance_line

HEAT_ROW, CURVES_PX, BETWEEN_PX = 42, 210, 64
COLOURSCALE = {"colorscale": "Viridis", "reversescale": True}  # fast is bright
OVER = "rgba(128,128,128,0.78)"
STAR = COLOURS["wait"]
MIB = 2**20
LEFT = 70


def choices_drawing(selection: Selection, profile: Profile) -> dict[str, Any]:
    """Two panels: a heat map of predicted seconds over B and G, and the same against memory with the budget.

    What is grey doesn't fit. A star marks the choice, a ring the best of the other group sizes. A profile of fewer than
    three group sizes leaves curves empty, so that profiles may take turns in one live figure.
    """
    weighed = selection.candidates
    most = max(each.groups for each in weighed)
    seconds = np.full((len(weighed), most), np.nan)  # (sizes, banks)
    for row, each in enumerate(weighed):
        seconds[row, : each.groups] = each.seconds_by_banks
    limits = np.array([each.bank_limit for each in weighed])
    over = np.where((np.arange(most) >= limits[:, None]) & ~np.isnan(seconds), 1.0, np.nan)
    told = provenance_line(provenance(profile))
    told += (
        f'<br><span style="color:{STAR}">★</span> chosen  <span style="color:{STAR}">○</span> the best of the other '
        "group sizes  · grey, or right of the dotted line: over the budget · bright: fast"
    )
    sizes = [f"G={each.group_size}" for each in weighed]
    told += f"<br>below: {key(dict(zip(sizes, cycle(SEQUENCE), strict=False)))}"
    drawn = [
        _heat(seconds, weighed),
        _shade(over),
        *_marks(selection, "x", "y", lambda each: (each.banks, weighed.index(each))),
    ]
    drawn += _curves(weighed, profile)
    drawn += [_budget(selection, seconds), *_marks(selection, "x2", "y2", lambda each: _memory(each, profile))]
    return {"data": drawn, "layout": _layout(weighed, most, told, _span(weighed, profile))}


def provenance(profile: Profile) -> Provenance:
    """Of predictions from a profile: where it was measured, or that it was simulated."""
    origin = profile.origin
    limit = {"read_bandwidth_bytes_per_second": origin.read_bandwidth} if origin.read_bandwidth else {}
    kind = "simulated" if simulated(profile) else "measured"
    return {
        "kind": f"predicted from a {kind} profile",
        "machine": origin.machine,
        "model": origin.model,
        "tokens": origin.tokens,
        **limit,
    }


def simulated(profile: Profile) -> bool:
    """Whether nothing of it was measured."""
    return profile.origin.numerics_profile == "simulated"


def _heat(seconds: NDArray[np.float64], weighed: Sequence[Weighed]) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "name": "predicted",
        "z": seconds,
        "x": np.arange(1, seconds.shape[1] + 1),
        "y": np.arange(len(weighed)),  # the axis names them: of names that are numbers plotly would make a scale
        "customdata": np.repeat([[each.group_size] for each in weighed], seconds.shape[1], axis=1),
        **COLOURSCALE,
        "xgap": 2,
        "ygap": 2,
        "hoverongaps": False,
        "colorbar": {
            "title": {"text": "s"}, "outlinewidth": 0, "thickness": 12, "len": HEAT_ROW * len(weighed),
            "lenmode": "pixels", "y": 1, "yanchor": "top", "nticks": 4,
        },
        "hovertemplate": "B=%{x} G=%{customdata}<br>%{z:.4f} s predicted<extra></extra>",
    }  # fmt: skip


def _shade(over: NDArray[np.float64]) -> dict[str, Any]:
    return {
        "type": "heatmap",
        "name": "over the budget",
        "z": over,
        "x": np.arange(1, over.shape[1] + 1),
        "colorscale": [[0, OVER], [1, OVER]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
        "hoverinfo": "skip",
    }


def _memory(each: Weighed, profile: Profile) -> tuple[float, float | None]:
    return (profile.other_bytes + each.arena_bytes) / MIB, each.predicted_seconds


def _marks(selection: Selection, x: str, y: str, place: Any) -> list[dict[str, Any]]:
    """The choice and the runner-up, which may be missing."""
    marks = []
    for name, each, symbol, size in (
        ("runner-up", selection.runner_up, "circle-open", 15),
        ("chosen", selection.chosen, "star", 16),
    ):
        at = [place(each)] if each is not None else []
        marks.append(
            {
                "type": "scatter",
                "name": name,
                "mode": "markers",
                "x": [across for across, _ in at],
                "y": [up for _, up in at],
                "xaxis": x,
                "yaxis": y,
                "marker": {
                    "symbol": symbol, "size": size, "color": STAR,
                    "line": {"color": INK if symbol == "star" else STAR, "width": 1 if symbol == "star" else 3},
                },
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )  # fmt: skip
    return marks


def _curves(weighed: Sequence[Weighed], profile: Profile) -> list[dict[str, Any]]:
    curves = []
    for number in range(max(3, len(weighed))):
        each = weighed[number] if number < len(weighed) else None
        banks = np.arange(1, each.groups + 1) if each else np.empty(0)
        size = each.group_size if each else 0
        curves.append(
            {
                "type": "scatter",
                "name": f"G={size}",
                "mode": "lines+markers",
                "x": (profile.other_bytes + banks * size * profile.slot_bytes) / MIB,
                "y": np.array(each.seconds_by_banks if each else ()),
                "customdata": banks,
                "xaxis": "x2",
                "yaxis": "y2",
                "line": {"color": SEQUENCE[number % len(SEQUENCE)], "width": 1.5},
                "marker": {"size": 5},
                "hovertemplate": f"G={size} B=%{{customdata}}<br>%{{x:.1f}} MiB, %{{y:.4f}} s<extra></extra>",
                "showlegend": False,
            }
        )
    return curves


def _budget(selection: Selection, seconds: NDArray[np.float64]) -> dict[str, Any]:
    at = selection.budget_bytes / MIB
    return {
        "type": "scatter",
        "name": "budget",
        "mode": "lines",
        "x": [at, at],
        "y": [float(np.nanmin(seconds)), float(np.nanmax(seconds))],
        "xaxis": "x2",
        "yaxis": "y2",
        "line": {"color": GREY, "dash": "dot", "width": 2},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _span(weighed: Sequence[Weighed], profile: Profile) -> list[float]:
    """The memory axis: from below the smallest arena to right of the largest."""
    low = min(each.least_bytes for each in weighed) / MIB
    high = max(profile.other_bytes + each.groups * each.group_size * profile.slot_bytes for each in weighed) / MIB
    return [low - 0.04 * (high - low), high + 0.04 * (high - low)]


def _layout(weighed: Sequence[Weighed], most: int, told: str, span: list[float]) -> dict[str, Any]:
    heat = HEAT_ROW * len(weighed)
    height = heat + BETWEEN_PX + CURVES_PX
    layout = dressing("What the budget is best spent on", told, height)
    layout["margin"] = {**layout["margin"], "l": LEFT}
    still = {**AXIS, "automargin": False, "ticks": ""}
    layout["xaxis"] = {
        **still, "title": {"text": "banks B", "standoff": 4}, "range": [0.5, most + 0.5], "dtick": 1, "showgrid": False,
    }  # fmt: skip
    layout["yaxis"] = {
        **still,
        "title": {"text": "G"},
        "tickvals": list(range(len(weighed))),
        "ticktext": [str(each.group_size) for each in weighed],
        "range": [-0.5, len(weighed) - 0.5],
        "domain": [1 - heat / height, 1],
        "showgrid": False,
    }
    layout["xaxis2"] = {**still, "title": {"text": "memory, MiB"}, "range": span, "anchor": "y2"}
    layout["yaxis2"] = {
        **still, "title": {"text": "predicted s"}, "domain": [0, CURVES_PX / height], "anchor": "x2",
    }  # fmt: skip
    return {**layout, "plot_bgcolor": CLEAR}
