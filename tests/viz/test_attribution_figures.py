"""Figures of numerics attribution show the figures that they are given, and say whose they are."""

from dataclasses import replace

import pytest

from estream_lab.evaluate.attribution import Attribution, Row
from estream_lab.evaluate.outliers import Scaled
from estream_lab.viz.figures.attribution import attribution_rows, outlier_curves

ROW = Row("alone", "Q4_0 weights", ("quantise",), (), (0.05, 0.07), (0, 3), 0.015, 2e-3, 3e-3, 1e-3, 0.2)
SAME = replace(ROW, name="scatter reversed", layer_error=(0.0, 0.0), layer_flips=(0, 0), flip_share=0.0)
FOUND = Attribution("shipped", False, 2, 100, 200, 1.8, (ROW, SAME, replace(ROW, group="device")))
PROVENANCE = {"kind": "computed", "model": "shipped"}
OUTLIER = Scaled("swiglu", 12, False, 1.8, {"fp16 operands": 0.6, "SiLU table": -0.001}, {"the device": 0.03})


def test_a_row_has_a_mark_for_its_worst_error_its_flips_and_its_bits() -> None:
    figure = attribution_rows({"as trained": FOUND, "renormalised": replace(FOUND, rows=(SAME, ROW, ROW))}, PROVENANCE)
    errors, flips, divergence, bits, *others = figure.data
    assert list(errors.x) == [0.07, None, 0.07]
    assert list(flips.x) == [1.5, 0, 1.5]
    assert list(divergence.x) == [2e-3] * 3
    assert list(bits.x) == [3e-3] * 3 and list(bits.error_x.array) == [1e-3] * 3
    assert list(others[0].x) == [None, 0.07, 0.07]
    assert [trace.name for trace in figure.data if trace.showlegend] == ["as trained", "renormalised"]
    assert list(errors.y) == [0, 1, 2]
    assert list(figure.layout.yaxis.ticktext) == ["Q4_0 weights", "scatter reversed", "Q4_0 weights"]
    assert {shape.y0 for shape in figure.layout.shapes} == {1.5}  # between the groups
    assert "2 windows, 100 tokens" in figure.layout.title.subtitle.text
    assert "computed" in figure.layout.title.subtitle.text


def test_curves_rise_with_the_scale_and_renormalised_ones_are_dashed() -> None:
    more = replace(OUTLIER, log2=14, perplexity_percent={"fp16 operands": 8.0, "SiLU table": 0.0})
    figure = outlier_curves([OUTLIER, more, replace(OUTLIER, renormalise=True)], 5.51, PROVENANCE)
    operands, table, dashed, _ = figure.data
    assert (list(operands.x), list(operands.y)) == ([12, 14], [0.6, 8.0])
    assert list(table.y) == pytest.approx([0.001, None])
    assert (operands.line.dash, dashed.line.dash) == ("solid", "dash")
    assert [shape.y0 for shape in figure.layout.shapes] == [5.51]
    assert "5.51 %" in figure.layout.title.text
