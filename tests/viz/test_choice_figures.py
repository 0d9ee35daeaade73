"""Figures of the configuration: critical paths, tables of maxima, what a budget is spent on, regret, orders."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go

from estream_lab.simulate import OwnTimes, ScheduledLayer
from estream_lab.tuning.configure import Selection, peak_depth, select
from estream_lab.tuning.flow_shop import Distances
from estream_lab.tuning.grids import Configuration, configurations
from estream_lab.tuning.profile import Profile
from estream_lab.tuning.regret import regret_curves
from estream_lab.viz import figures
from estream_lab.viz.figures.choices import choices_drawing
from estream_lab.viz.figures.critical_path import BINDING_COLOURS, LOW, WORK, critical_paths
from estream_lab.viz.figures.regret import regret_surface
from estream_lab.viz.figures.terms import terms_table
from tests.tuning.profiles import RECORD, calibration, profile, routes

from .hand_made import PROVENANCE

A = ScheduledLayer((4, 4, 4, 4), (2, 3, 1, 2), 5, banks=2, queue_depth=2)
LOADS = routes(2, 8)
PROFILE: Profile = profile(LOADS, [calibration(LOADS, size, depth, OwnTimes()) for size in (2, 4) for depth in (1, 2)])
SECONDS = {
    each: 1.0 + 0.1 * each.group_size - 0.01 * each.banks + 0.3 / each.queue_depth for each in configurations(8, (2, 4))
}
PEAKS = dict.fromkeys(SECONDS, 1)
CURVES = regret_curves(PROFILE, SECONDS, PEAKS)
APART = {"here": Distances(100.0, 90.0, {"offline": 120.0, "johnson": 105.0, "descending work": 110.0})}
BUDGET = PROFILE.other_bytes + 5 * RECORD
DRAWN: dict[str, Callable[[], go.Figure]] = {"order_bars": lambda: figures.order_bars(APART, PROVENANCE)}


def paths() -> go.Figure:
    return critical_paths({"two": A, "three": replace(A, banks=3)})


def choices(selection: Selection, profile: Profile) -> go.Figure:
    return go.Figure(choices_drawing(selection, profile))


OF_THEIR_OWN: dict[str, tuple[Callable[[], go.Figure], str]] = {
    "choices_drawing": (lambda: choices(select(PROFILE, BUDGET), PROFILE), "predicted from a measured profile"),
    "critical_paths": (paths, "service times made up"),
    "regret_surface": (lambda: regret_surface(PROFILE, SECONDS, CURVES), "predicted from a measured profile"),
    "terms_table": (lambda: terms_table(A), "service times made up"),
}
"""Figures that know their origin themselves, and what they say of it."""


def test_the_path_runs_without_a_gap_through_bars_of_full_colour() -> None:
    bars, path, marks, *_ = paths().data
    assert list(path.x) == [0, 5, 5, 7, 7, 10, 10, 14, 14, 16]
    assert [round(y - LOW) for y in path.y] == [0, 0, 0, 0, 0, 0, 2, 2, 0, 0]
    assert list(marks.x) == [5, 7, 10, 14]
    assert list(marks.marker.color) == [BINDING_COLOURS[name] for name in ("non-expert work", "NPU", "bank", "read")]
    full = {
        (bars.base[i], bars.base[i] + bars.x[i])
        for i, colour in enumerate(bars.marker.color) if colour in WORK.values()
    }  # fmt: skip
    assert full == {(step.start, step.end) for step in A.path}


def test_each_chart_says_its_time_and_what_all_share_is_told_once() -> None:
    figure = paths()
    assert [note.text for note in figure.layout.annotations] == ["<b>two</b>: T_pipe = 16", "<b>three</b>: T_pipe = 13"]
    subtitle = figure.layout.title.subtitle.text
    assert "L 4, 4, 4, 4" in subtitle and "T^ne 5" in subtitle and "Q 2" in subtitle and "B 2" not in subtitle


def test_the_table_puts_numbers_into_every_maximum_and_colours_the_one_that_binds() -> None:
    (table,) = terms_table(A).data
    k, _, _, starts, read, runs, ends = table.cells["values"]
    assert (k[3], starts[3], read[3]) == ("4", "max(d₂ 4, f₂ 10) = 10", "10 + 4 = 14")
    assert (starts[0], runs[1], ends[3]) == ("0", "max(d₂ 4, T 5, f₁ 7) = 7", "14 + 2 = 16")
    assert list(table.cells.font.color[3])[2:] == [BINDING_COLOURS["bank"]] * 2
    assert list(table.cells.font.color[5]) == [
        BINDING_COLOURS[name] for name in ("non-expert work", "NPU", "read", "read")
    ]


def test_predictions_stand_at_their_group_size_and_banks_and_what_does_not_fit_is_grey() -> None:
    selection = select(PROFILE, BUDGET)
    heat, shade, runner_up, chosen, *curves = choices(select(PROFILE, BUDGET), PROFILE).data
    by_size = {each.group_size: each for each in selection.candidates}
    assert list(heat.z[0]) == list(by_size[2].seconds_by_banks)
    assert list(heat.z[1][:2]) == list(by_size[4].seconds_by_banks) and np.isnan(heat.z[1][2:]).all()
    assert np.array_equal(shade.z, [[np.nan, np.nan, 1, 1], [np.nan, 1, np.nan, np.nan]], equal_nan=True)
    names = list(choices(selection, PROFILE).layout.yaxis.ticktext)
    assert (list(chosen.x), names[chosen.y[0]]) == ([selection.chosen.banks], str(selection.chosen.group_size))
    assert selection.runner_up is not None
    assert names[runner_up.y[0]] == str(selection.runner_up.group_size)
    lines = {curve.name: curve for curve in curves}
    assert list(lines["G=2"].x * 2**20) == [PROFILE.other_bytes + banks * 2 * RECORD for banks in (1, 2, 3, 4)]
    assert lines["budget"].x[0] == BUDGET / 2**20
    told = choices(selection, PROFILE).layout.title.subtitle.text
    assert all(f'<span style="color:{lines[name].line.color}">■</span> {name}' in told for name in ("G=2", "G=4"))
    assert "predicted from a measured profile" in choices(select(PROFILE, BUDGET), PROFILE).layout.title.subtitle.text
    made_up = replace(PROFILE, origin=replace(PROFILE.origin, numerics_profile="simulated"))
    assert "a simulated profile" in choices(selection, made_up).layout.title.subtitle.text


def test_where_one_group_size_fits_there_is_no_runner_up() -> None:
    _, _, runner_up, *_ = choices(select(PROFILE, PROFILE.other_bytes + 2 * RECORD), PROFILE).data
    assert len(runner_up.x) == 0


def test_swept_times_stand_beside_predicted_ones_and_regret_at_every_budget() -> None:
    predicted, swept, *lines = regret_surface(PROFILE, SECONDS, CURVES).data
    assert swept.name == "measured" and np.nanmin(swept.z) == np.nanmin(predicted.z) == 0
    assert peak_depth(PROFILE) == 2
    assert list(swept.customdata[0]) == [SECONDS[Configuration(min(2, b), b, 2)] for b in (1, 2, 3, 4)]
    assert list(swept.customdata[1][:2]) == [SECONDS[Configuration(b, b, 4)] for b in (1, 2)]
    needs = sorted({PROFILE.other_bytes + each.banks * each.group_size * RECORD for each in SECONDS})
    for line, (name, curve) in zip(lines, CURVES.items(), strict=True):
        assert line.name == f"{name} model"
        assert list(line.x) == [need / 2**20 for need in needs]
        assert list(line.y) == [100 * regret for _, regret in curve]


def test_orders_are_told_in_per_cent_over_the_bound() -> None:
    bars = DRAWN["order_bars"]().data
    assert {bar.name: round(bar.x[0], 9) for bar in bars} == {
        "as stored": 20, "most work first": 10, "Johnson's order": 5,
    }  # fmt: skip
