"""Figures of the paper's values beside ours: a symbol a kind, published ones where they belong."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from estream_lab.errors import EStreamError
from estream_lab.simulate import MODELS, Settings, Simulation, Workload, load_device
from estream_lab.trace import Trace
from estream_lab.tuning.grids import Configuration
from estream_lab.tuning.paper import KINDS, Mark
from estream_lab.tuning.paper.configurations import Choice, Point, Swept
from estream_lab.tuning.paper.lengths import Run
from estream_lab.tuning.regret import Budget
from estream_lab.viz import figures
from estream_lab.viz.figures.kinds import KIND_COLOURS, SYMBOLS

from .hand_made import MS, PROVENANCE, span

GIB = 2**30
MARKS = [
    Mark("a", "time", 2.0, "s", "simulated", "G=4"),
    Mark("a", "time", 2.5, "s", "published", "a <note>"),
    Mark("b", "time", 4.0, "s", "measured"),
    Mark("a", "memory", 3 * GIB, "bytes", "fitted"),
    Mark("b", "record", 3 * 2**20, "bytes", "computed"),
    Mark("b", "error", -5.04, "%", "published, in notes"),
]
POINTS = tuple(
    Point(Configuration(depth, banks, size), seconds, banks * size * GIB, kind)
    for depth, banks, size, seconds, kind in (
        (1, 1, 4, 3.0, "simulated"), (1, 2, 4, 2.5, "simulated"), (2, 2, 4, 2.0, "simulated"), (1, 1, 8, 2.2, "fitted"),
    )
)  # fmt: skip
CHOICE = Choice(Budget("low", 8 * GIB, ()), POINTS[1], POINTS[2], None)
SWEPT = Swept("m", POINTS, (CHOICE,))
BESIDE = [
    Mark("m, G=8 Q=1 B=1", "latency", 2.1, "s", "published"),
    Mark("m, G=8 Q=1 B=7", "latency", 1.0, "s", "published"),
    Mark("m, G=8 Q=1 B=1", "latency", 2.2, "s", "fitted"),
]


def ran(tokens: int, seconds: float) -> Run:
    olmoe = replace(MODELS["olmoe"], layers=1)
    workload = Workload(olmoe, tokens, np.full((1, 64), tokens // 8), "synthetic")
    trace = Trace((replace(span("request", "prefill", 0, 1), duration_ns=round(seconds * 1000) * MS),), PROVENANCE)
    return Run("olmoe", tokens, Simulation(load_device("phone"), workload, Settings(4, 3, 2), trace))


RUNS = [ran(512, 0.9), ran(1024, 1.25)]
LOADS = {
    "made": Workload(replace(MODELS["mixtral"], layers=1), 16, np.array([[0, 4, 100, 1, 1, 1, 1, 64]]), "measured"),
    "drawn": Workload(replace(MODELS["mixtral"], layers=1), 16, np.full((1, 8), 4), "synthetic (alpha 1, seed 0)"),
}
DRAWN: dict[str, Callable[[], go.Figure]] = {
    "beside": lambda: figures.beside(MARKS, "Values", PROVENANCE),
    "configuration_curves": lambda: figures.configuration_curves([SWEPT], BESIDE, PROVENANCE),
    "expert_loads": lambda: figures.expert_loads(LOADS, PROVENANCE),
    "length_curves": lambda: figures.length_curves(RUNS, PROVENANCE),
}


def test_every_kind_has_a_symbol_of_its_own() -> None:
    assert set(SYMBOLS) == set(KIND_COLOURS) == set(KINDS)
    assert len(set(SYMBOLS.values())) == len(KINDS)


def test_a_panel_is_a_quantity_a_row_whose_and_a_symbol_how() -> None:
    figure = DRAWN["beside"]()
    assert [note.text for note in figure.layout.annotations] == ["time, s", "memory, GiB", "record, MiB", "error, %"]
    assert list(figure.layout.yaxis.ticktext) == ["a", "b"]
    found = [(trace.name, trace.xaxis, list(trace.x), list(trace.y), list(trace.text)) for trace in figure.data]
    assert found == [
        ("published", "x", [2.5], [0], ["2.5"]), ("measured", "x", [4], [1], ["4"]),
        ("simulated", "x", [2], [0], ["2"]),
        ("fitted", "x2", [3], [0], ["3"]), ("computed", "x3", [3], [1], ["3"]),
        ("published, in notes", "x4", [-5.04], [1], ["-5.0"]),
    ]  # fmt: skip
    assert all(trace.marker.symbol == SYMBOLS[trace.name] for trace in figure.data)
    above = {trace.name for trace in figure.data if trace.textposition.startswith("top")}
    assert above == {"published", "published, in notes"}


def test_a_mark_says_how_it_came_about() -> None:
    told = {trace.name: trace.hovertemplate[0] for trace in DRAWN["beside"]().data}
    for kind, meaning in KINDS.items():
        assert f"{kind}: {meaning}" in told[kind]
    assert "<b>a</b><br>time 2 s<br>" in told["simulated"] and told["simulated"].endswith("<br>G=4<extra></extra>")
    assert (
        "memory 3 GiB" in told["fitted"]
        and "record 3 MiB" in told["computed"]
        and "error -5.0 %" in told["published, in notes"]
    )


def test_marks_are_within_the_axes_and_linear_ones_have_zero() -> None:
    linear, log = DRAWN["beside"](), figures.beside(MARKS[:3], "Values", PROVENANCE, logarithmic=True)
    for trace in linear.data:
        low, high = linear.layout[f"xaxis{trace.xaxis[1:]}"].range
        assert low < min(0, *trace.x) and max(0, *trace.x) < high
    low, high = log.layout.xaxis.range
    assert low < np.log10(2) and np.log10(4) < high and list(log.layout.xaxis.tickvals) == [2, 3, 4]
    with pytest.raises(EStreamError, match="no values to put beside"):
        figures.beside([], "Values", PROVENANCE)


def test_a_kind_is_in_the_legend_once() -> None:
    twice = [*MARKS, replace(MARKS[0], quantity="other")]
    shown = [trace.name for trace in figures.beside(twice, "Values", PROVENANCE).data if trace.showlegend]
    assert sorted(shown) == sorted(KINDS)


def test_a_curve_is_a_group_size_and_depth_and_a_ring_a_choice() -> None:
    figure = DRAWN["configuration_curves"]()
    curves = [trace for trace in figure.data if trace.mode == "lines+markers"]
    assert [(trace.name, list(trace.x), list(trace.y)) for trace in curves] == [
        ("G=g₀, Q=1", [4, 8], [3, 2.5]), ("G=2 g₀, Q=1", [8], [2.2]), ("G=g₀, Q=2", [8], [2]),
    ]  # fmt: skip
    assert list(curves[1].marker.symbol) == [SYMBOLS["fitted"]]
    (ring,) = (trace for trace in figure.data if trace.name == "chosen for a budget")
    assert (list(ring.x), list(ring.y)) == ([8], [2.5])
    assert "25.00 % slower than the fastest that fits, G=4 Q=2 B=2" in ring.hovertemplate[0]
    assert figure.layout.annotations[0].text == "m: 4 configurations"


def test_a_published_latency_stands_at_the_simulated_memory_of_its_configuration() -> None:
    (theirs,) = (trace for trace in DRAWN["configuration_curves"]().data if trace.name == "published")
    assert (list(theirs.x), list(theirs.y), theirs.marker.symbol) == ([8], [2.1], SYMBOLS["published"])


def test_loads_fall_and_idle_experts_are_left_out() -> None:
    made, drawn = DRAWN["expert_loads"]().data
    assert np.array_equal(made.y, [100, 64, 4, 1, 1, 1, 1, np.nan], equal_nan=True)
    assert list(made.x) == [12.5 * place for place in range(1, 9)]
    assert (made.line.dash, drawn.line.dash) == ("solid", "dash")
    layout = DRAWN["expert_loads"]().layout
    assert layout.shapes[0].y0 == 64 and layout.annotations[0].y == pytest.approx(np.log10(64))


def test_published_times_hang_on_the_simulated_ones_of_their_length() -> None:
    line, apart, theirs = DRAWN["length_curves"]().data
    assert (list(line.x), list(line.y)) == ([512, 1024], [0.9, 1.25])
    assert (list(theirs.x), list(theirs.y), theirs.marker.symbol) == ([1024], [1.03], SYMBOLS["published"])
    assert (list(apart.x), list(apart.y)) == ([1024, 1024], [1.25, 1.03])
    low, high = DRAWN["length_curves"]().layout.yaxis.range
    assert low < np.log10(0.9) and np.log10(1.25) < high
