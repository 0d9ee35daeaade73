"""Time against memory: a mark for each contestant where it belongs, its name beside it, and who was refused."""

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.routing.padding import RowCost
from estream_lab.simulate.rivals import EStream, Outcome
from estream_lab.simulate.soc import Settings
from estream_lab.tuning.plans import PlanCurves
from estream_lab.viz import figures
from estream_lab.viz.figures.rivals import LINE_PX, OTHERS, OURS, spread

from .hand_made import PROVENANCE

GIB = 2**30
OURSELVES = Outcome(
    EStream(Settings(2, 2, 1)).name, "G=2 B=2 Q=1", "simulated", 1.25, GIB // 2, GIB, 3 * 2**20, RowCost(8, 8)
)
RESIDENT = replace(OURSELVES, contestant="resident", seconds=0.5, peak_bytes=4 * GIB)
DROPPING = replace(OURSELVES, contestant="tiers", seconds=1.26, rows=RowCost(8, 12, 2))
FOUND = (OURSELVES, RESIDENT, DROPPING)
CURVES = PlanCurves(8, 2, maxplus=(3.0, 2.0, 2.0), roofline=(1.5, 1.0, 1.0), simulated=(2.5, 2.1, 1.9))
TIERS = {"a": {0.5: replace(DROPPING, saliency_dropped=0.1), 1.0: OURSELVES}, "b": {0.5: OURSELVES}}
DRAWN: dict[str, Callable[[], go.Figure]] = {
    "plan_curves": lambda: figures.plan_curves(CURVES, PROVENANCE),
    "tier_curves": lambda: figures.tier_curves(TIERS, PROVENANCE),
    "rival_marks": lambda: figures.rival_marks(FOUND, GIB, PROVENANCE, ["whole layers"]),
}


def marks(figure: go.Figure) -> dict[str, go.Scatter]:
    return {trace.name: trace for trace in figure.data if trace.mode == "markers"}


def test_a_mark_lies_at_memory_and_time_and_is_hollow_over_the_budget() -> None:
    found = marks(DRAWN["rival_marks"]())
    assert list(found) == ["resident", "EStream early", "tiers"]  # in order of time
    places = [(trace.x[0], trace.y[0], trace.marker.symbol, trace.marker.color) for trace in found.values()]
    assert [place[2:] for place in places] == [("circle-open", OTHERS), ("circle", OURS), ("circle", OTHERS)]
    assert [place[:2] for place in places] == [pytest.approx(at) for at in [(4, 0.5), (0.5, 1.25), (0.5, 1.26)]]
    assert "8 rows for 8 routes, 0 dropped" in found["EStream early"].hovertemplate


def test_names_stand_apart_and_lines_lead_to_them() -> None:
    figure = DRAWN["rival_marks"]()
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    notes = [note for note in figure.layout.annotations if note.yref != "paper"]
    assert [note.text for note in notes] == [
        "resident <b>0.500 s</b>", "EStream early <b>1.25 s</b>", "tiers <b>1.26 s</b>, 25.0% dropped",
    ]  # fmt: skip
    for line, trace, note in zip(lines, marks(figure).values(), notes, strict=True):
        assert (line.x[0], line.y[0]) == (trace.x[0], trace.y[0])
        assert np.log10([line.x[1], line.y[1]]).tolist() == pytest.approx([note.x, note.y])
    low, high = figure.layout.yaxis.range
    plot_px = figure.layout.height - figure.layout.margin.t - figure.layout.margin.b
    assert min(np.diff([note.y for note in notes])) * plot_px / (high - low) >= LINE_PX - 1e-6


def test_the_budget_and_who_was_refused_are_told() -> None:
    figure = DRAWN["rival_marks"]()
    assert [note.text for note in figure.layout.annotations if note.yref == "paper"] == ["budget 1.00 GiB"]
    assert figure.layout.shapes[0].x0 == 1
    assert "refused, over the budget: whole layers" in figure.layout.title.subtitle.text
    assert "refused" not in figures.rival_marks(FOUND, GIB, PROVENANCE).layout.title.subtitle.text


def test_marks_and_budget_are_in_view_and_the_axes_have_numbers() -> None:
    figure = figures.rival_marks([replace(OURSELVES, peak_bytes=6 * GIB // 7)], GIB, PROVENANCE)
    low, high = figure.layout.xaxis.range
    assert low < np.log10(6 / 7) < 0 < high
    assert list(figure.layout.xaxis.tickvals) == [0.8, 0.9, 1.0]
    assert len(figure.layout.yaxis.tickvals) >= 2
    json.dumps(figure.to_plotly_json(), default=lambda array: array.tolist())


def test_times_have_three_digits_and_narrow_axes_finer_numbers() -> None:
    slow = [replace(OURSELVES, seconds=104.66), replace(OURSELVES, seconds=18.04, peak_bytes=13 * GIB // 20)]
    figure = figures.rival_marks(slow, 9 * GIB // 10, PROVENANCE)
    assert {"EStream early <b>105 s</b>", "EStream early <b>18.0 s</b>"} <= {n.text for n in figure.layout.annotations}
    assert list(figure.layout.xaxis.tickvals) == [0.5, 0.6, 0.7, 0.8, 0.9]
    narrow = figures.rival_marks([replace(OURSELVES, peak_bytes=13 * GIB // 10)], 2 * GIB, PROVENANCE)
    assert list(narrow.layout.xaxis.tickvals)[-3:] == [1.9, 2.0, 2.1]
    wide = figures.rival_marks([replace(OURSELVES, peak_bytes=13 * GIB // 10)], 3 * GIB, PROVENANCE)
    assert list(wide.layout.xaxis.tickvals) == [1.5, 2, 3]


def test_predictions_are_lines_simulated_times_marks_and_what_does_not_fit_is_shaded() -> None:
    figure = DRAWN["plan_curves"]()
    assert [(trace.name, trace.mode, list(trace.y)) for trace in figure.data] == [
        ("roofline, predicted", "lines", [1.5, 1.0, 1.0]),
        ("max-plus, predicted", "lines", [3.0, 2.0, 2.0]),
        ("simulated", "markers", [2.5, 2.1, 1.9]),
    ]
    (shade,) = figure.layout.shapes
    assert (shade.x0, shade.x1) == (2.5, 3.5) and figure.layout.annotations[0].text == "over the budget"
    assert not figures.plan_curves(replace(CURVES, fits=3), PROVENANCE).layout.shapes


def test_tiers_are_told_by_what_they_drop_and_pad() -> None:
    routes, lost, rows, other, *_ = DRAWN["tier_curves"]().data
    assert (list(routes.x), list(routes.y), list(lost.y)) == ([0.5, 1.0], [25, 0], [10, 0])
    assert list(rows.y) == [12 / 6, 1]
    assert (routes.name, lost.line.dash, other.name) == ("a", "dot", "b")


def test_nothing_to_draw_is_told() -> None:
    with pytest.raises(EStreamError, match="nobody ran within the budget"):
        figures.rival_marks([], GIB, PROVENANCE)


@given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.001, 0.2))
def test_names_keep_their_distance_their_order_and_the_plot(wanted: list[float], gap: float) -> None:
    rising = np.array(sorted(wanted))
    found = spread(rising, gap, 0.0, 1.0)
    assert len(found) == len(rising) and ((found >= -1e-9) & (found <= 1 + 1e-9)).all()
    least = min(gap, 1 / max(len(rising) - 1, 1))
    assert (np.diff(found) >= least - 1e-9).all()
    if (np.diff(rising) >= gap).all():
        assert found == pytest.approx(rising)
