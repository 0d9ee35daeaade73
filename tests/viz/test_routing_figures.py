"""Figures of routers, skew and padding, on values worked out by hand."""

from collections.abc import Callable

import numpy as np
import plotly.graph_objects as go
import pytest

from estream_lab.routing import RouterSpec, Routes, skew
from estream_lab.routing.padding import row_costs
from estream_lab.viz import figures
from estream_lab.viz.figures.theme import COLOURS

from .hand_made import PROVENANCE, ROUTES

LOGITS = np.log(np.array([[0.1, 0.4, 0.2, 0.3], [0.7, 0.1, 0.1, 0.1]], np.float32))
SPECS = {
    "plain": RouterSpec(experts=4, top_k=2, renormalise=False),
    "whole": RouterSpec(experts=4, top_k=2, renormalise=True),
}
ONE_EXPERT = Routes(ROUTES.token, np.zeros(6, np.int32), ROUTES.weight)
COUNTS = np.array([5, 0, 2, 1], np.int64)
TOUCHED = {"a": (np.array([1, 2, 2]), 4)}
DRAWN: dict[str, Callable[[], go.Figure]] = {
    "capacity_panels": lambda: figures.capacity_panels(COUNTS, 6, 1.5, PROVENANCE),
    "load_curves": lambda: figures.load_curves({"a": ROUTES, "b": ONE_EXPERT}, 6, PROVENANCE),
    "padding_bars": lambda: figures.padding_bars({"a": row_costs(COUNTS, 6, 1.5)}, PROVENANCE),
    "router_scores": lambda: figures.router_scores(LOGITS[0], SPECS, PROVENANCE, "<"),
    "skew_bars": lambda: figures.skew_bars({"a": {0: ROUTES}, "b": {0: ONE_EXPERT}}, 6, PROVENANCE),
    "touched_curve": lambda: figures.touched_curve(TOUCHED, {"b": TOUCHED["a"]}, {"c": TOUCHED["a"]}, PROVENANCE),
    "weight_sums": lambda: figures.weight_sums(LOGITS, SPECS, PROVENANCE),
}


def test_scores_are_of_all_experts_and_the_chosen_bear_their_weight() -> None:
    plain, whole = DRAWN["router_scores"]().data
    assert list(plain.y) == list(whole.y) == pytest.approx([0.1, 0.4, 0.2, 0.3])
    assert list(plain.text) == ["", "α 0.40", "", "α 0.30"]
    assert list(whole.text) == ["", "α 0.57", "", "α 0.43"]
    assert [colour == COLOURS["expert"] for colour in plain.marker.color] == [False, True, False, True]
    assert DRAWN["router_scores"]().layout.title.text == "The router's scores for the token “&lt;”"


def test_scores_are_the_rules_own_before_any_division() -> None:
    sigmoid = RouterSpec(experts=4, top_k=2, renormalise=True, scoring="sigmoid", scale=2.0)
    (bars,) = figures.router_scores(np.zeros(4, np.float32), {"a": sigmoid}, PROVENANCE).data
    assert list(bars.y) == [0.5] * 4
    assert list(bars.text) == ["α 1.00", "α 1.00", "", ""]
    assert figures.router_scores(LOGITS[0], SPECS, PROVENANCE).layout.title.text == "The router's scores for one token"


def test_a_bar_is_the_mean_of_each_choice_and_the_sum_is_told_with_its_range() -> None:
    figure = DRAWN["weight_sums"]()
    first, second = figure.data
    assert list(first.x) == pytest.approx([(0.4 + 0.7) / 2, (4 / 7 + 7 / 8) / 2])
    assert list(second.x) == pytest.approx([(0.3 + 0.1) / 2, (3 / 7 + 1 / 8) / 2])
    told = [annotation.text for annotation in figure.layout.annotations]
    assert told == ["<b>Σα = 0.75</b>  0.70 to 0.80", "<b>Σα = 1.00</b>  for every token"]


def test_skew_is_told_by_layer_and_input() -> None:
    effective, share, one, all_of_it = DRAWN["skew_bars"]().data
    assert list(effective.y) == [skew(ROUTES, 6).effective_experts]
    assert list(share.y) == pytest.approx([100 / 3])
    assert (list(one.y), list(all_of_it.y)) == ([1], [100])
    assert [bar.name for bar in DRAWN["skew_bars"]().data if bar.showlegend] == ["a", "b"]


def test_loads_are_shares_from_the_busiest_on() -> None:
    one, other = DRAWN["load_curves"]().data
    assert list(one.y) == pytest.approx([100 / 3, 100 / 3, 100 / 6, 100 / 6, 0, 0])
    assert list(one.customdata) == [2, 2, 1, 1, 0, 0]
    assert list(other.y) == [100, 0, 0, 0, 0, 0]


def test_touched_experts_are_shares_whose_kind_shows() -> None:
    lines = DRAWN["touched_curve"]().data
    assert [line.name for line in lines] == ["a (measured)", "b (synthetic)", "c (formula)"]
    assert [line.line.dash for line in lines] == ["solid", "dash", "dot"]
    for line in lines:
        assert (list(line.x), list(line.y)) == ([1, 2, 3], [25, 50, 50])


def test_a_long_curve_is_thinned_but_keeps_its_ends() -> None:
    long = np.arange(1, 5001)
    (line,) = figures.touched_curve({"a": (long, 5000)}, {}, {}, PROVENANCE).data
    assert len(line.x) <= 200
    assert (line.x[0], line.x[-1]) == (1, 5000)
    assert list(line.y) == pytest.approx([x / 50 for x in line.x])


def test_rows_are_told_per_route_with_padding_and_loss() -> None:
    """R = 8; each expert 6 rows, 5 rows, a capacity of 3, a tile of 32, exactly."""
    kept, padding, names = DRAWN["padding_bars"]().data
    assert list(kept.x) == [1, 1, 6 / 8, 1, 1]
    assert list(padding.x) == [16 / 8, 12 / 8, 6 / 8, 88 / 8, 0]
    assert [text.strip() for text in padding.text] == ["3.00×", "2.50×", "1.50×", "12.00×", "1.00×"]
    assert names.text[2] == "capacity factor 1.5: <b>25.0% dropped</b>"
    assert "dropped" not in "".join(names.text[:2] + names.text[3:])


def test_an_expert_beyond_the_capacity_loses_routes_and_one_below_pads() -> None:
    padding, loads, kept, line = DRAWN["capacity_panels"]().data[:4]
    assert [list(area.y) for area in (kept, loads, padding)] == [
        [3, 3, 2, 1, 0, 0],  # of four experts, and on to both sides of them
        [5, 5, 2, 1, 0, 0],
        [5, 5, 3, 3, 3, 3],
    ]
    assert padding.customdata[1:-1].tolist() == [[0, 5, 2, 0], [2, 2, 0, 1], [3, 1, 0, 2], [1, 0, 0, 3]]
    assert padding.hovertemplate.startswith(
        "expert %{customdata[0]}: %{customdata[1]} routes, %{customdata[2]} dropped"
    )
    assert list(line.y) == [3, 3]


def test_a_layer_without_routes_is_drawn() -> None:
    empty = figures.capacity_panels(np.zeros(4, np.int64), 0, 1.0, PROVENANCE)
    assert [max(trace.y) for trace in empty.data[1:3]] == [0, 0]
