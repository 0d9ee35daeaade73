"""Figures of kernels show the run that they are given, between the ceilings that it measured."""

from typing import Any

import numpy as np
import pytest

from estream_lab.viz.figures.kernel_errors import kernel_errors
from estream_lab.viz.figures.roofline import AROUND, roofline

PEAK = {"int8": 400e9, "fp32": 100e9, "read_bytes_per_second": 20e9}


def row(implementation: str, name: str, tokens: int, rate: float, **other: Any) -> dict[str, Any]:
    given = {"shape": "olmoe", "quant": "q4_0", "arithmetic": "int8", "fraction_of_peak": rate / 400}
    errors = {
        "relative_errors": {"gaussian": 0.01, "outliers": 0.02},
        "token_errors": {"gaussian": 0.03, "outliers": 0.04},
    }
    measured = {"seconds_median": 0.004, "macs_per_second": rate * 1e9, "macs_per_weight_byte": tokens / 4}
    who = {"implementation": implementation, "name": name, "tokens": tokens}
    return given | errors | measured | who | other


FOUND = {
    "kind": "measured",
    "machine": "a computer",
    "threads": 2,
    "rounds": 5,
    "peak": PEAK,
    "rows": [
        row("estream", "host int8", 1024, 200.0),
        row("estream", "host int8", 32, 50.0),
        row("ggml", "q4_0", 32, 25.0),
        row("ggml", "q4_K", 32, 12.5),
        row("torch", "bf16", 32, 5.0, arithmetic="bf16", fraction_of_peak=None, macs_per_weight_byte=2.0),
    ],
}


def test_there_is_a_mark_for_each_row_at_each_number_of_tokens() -> None:
    figure = roofline(FOUND)
    marks = [trace for trace in figure.data if trace.mode == "lines+markers"]
    assert [(trace.name, list(trace.x), list(trace.y)) for trace in marks] == [
        ("estream", [8, 256], [50, 200]), ("ggml", [8], [25]), ("ggml", [8], [12.5]), ("torch", [2], [5]),
    ]  # fmt: skip
    assert [trace.name for trace in marks if trace.showlegend] == ["estream", "ggml", "torch"]
    assert marks[1].marker.color == marks[2].marker.color != marks[0].marker.color
    assert [trace.marker.symbol for trace in marks] == ["circle", "circle", "circle", "diamond"]


def test_every_mark_says_that_it_is_measured_and_of_whom() -> None:
    marks = [trace for trace in roofline(FOUND).data if trace.mode == "lines+markers"]
    assert marks[1].hovertemplate.startswith("measured: ggml q4_0, ")
    assert list(marks[0].customdata[1]) == [1024, "q4_0", "int8", 4.0, " (50 % of its ceiling)"]
    assert marks[3].customdata[0][4] == ""
    subtitle = roofline(FOUND).layout.title.subtitle.text
    for told in ("measured · a computer · 2 threads", "median of 5 runs", "each read once", "● int8 ◆ bf16"):
        assert told in subtitle
    assert "this package, ggml and torch" in roofline(FOUND).layout.title.text


def test_ceilings_are_those_that_were_measured_and_meet() -> None:
    memory, int8, fp32 = (trace for trace in roofline(FOUND).data if trace.mode == "lines+text")
    left, right = 2 / AROUND, 256 * AROUND
    assert list(memory.x) == pytest.approx([left, 20]) and list(memory.y) == pytest.approx([20 * left, 400])
    assert list(int8.x) == pytest.approx([20, right]) and list(int8.y) == [400, 400]
    assert list(fp32.x) == pytest.approx([5, right]) and list(fp32.y) == [100, 100]
    assert [line.name for line in (memory, int8, fp32)] == ["memory, 20 GB/s", "int8, 400 GMAC/s", "fp32, 100 GMAC/s"]


def test_everything_lies_within_the_axes() -> None:
    figure = roofline(FOUND)
    for axis, values in (("xaxis", [2, 256]), ("yaxis", [5, 400])):
        low, high = 10 ** np.array(figure.layout[axis].range)
        assert low < values[0] and values[1] < high


def test_a_shape_is_a_panel() -> None:
    figure = roofline(FOUND | {"rows": [*FOUND["rows"], row("ggml", "q4_0", 32, 1.0, shape="mixtral")]})  # type: ignore[misc]
    assert [note.text for note in figure.layout.annotations] == ["olmoe", "mixtral"]
    assert {trace.xaxis for trace in figure.data} == {"x", "x2"}
    assert [trace.name for trace in figure.data if trace.showlegend] == ["estream", "ggml", "torch"]


def test_both_errors_of_every_row_are_shown() -> None:
    figure = kernel_errors(FOUND)
    assert [note.text for note in figure.layout.annotations] == ["gaussian", "outliers"]
    whole, token = (trace for trace in figure.data if trace.name == "olmoe, 32 tokens" and trace.xaxis == "x")
    assert list(whole.customdata) == ["host int8", "ggml q4_0", "ggml q4_K", "torch bf16"]
    assert list(whole.y) == [0.01] * 4 and list(token.y) == [0.03] * 4
    assert np.round(whole.x).tolist() == [0, 1, 2, 3] == list(figure.layout.xaxis.tickvals)
    assert "the worst token" in token.hovertemplate and "a computer" in figure.layout.title.subtitle.text
    first = next(trace for trace in figure.data if trace.name == "olmoe, 1024 tokens")
    assert list(first.x) != [whole.x[0]]  # side by side
