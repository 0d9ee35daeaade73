"""Figures of numerics attribution show the figures that they are given, and say whose they are."""

from dataclasses import replace

import pytest

from estream_lab.evaluate.attribution import Attribution, Row
from estream_lab.evaluate.outliers import Scaled
from estream_lab.evaluate.runs import Change
from estream_lab.evaluate.saturation import KINDS
from estream_lab.viz.figures.attribution import BITS, PERCENT, attribution_rows, outlier_curves

CHANGE = Change((0, 3), 0.015, 4e-3, 2e-3, 3e-3, 1e-3, 0.6, 0.2)
ROW = Row(**vars(CHANGE), group="alone", name="Q4_0 weights", on=("quantise",), reference=(), layer_error=(0.05, 0.07))
SAME = replace(ROW, name="scatter reversed", layer_error=(0.0, 0.0), layer_flips=(0, 0), flip_share=0.0, logits_error=0)
FOUND = Attribution("shipped", False, 2, 2, 100, 200, 1.8, (ROW, SAME, replace(ROW, group="device")))
PROVENANCE = {"kind": "computed", "model": "shipped"}
GAIN = replace(CHANGE, perplexity_percent=-0.6)
COUNTS = dict.fromkeys(KINDS, 0)
OUTLIER = Scaled("swiglu", 12, False, 2, 100, 1.8, COUNTS, COUNTS, {"fp16 operands": CHANGE, "SiLU table": GAIN})


def test_a_row_has_a_mark_for_its_worst_error_its_flips_and_its_bits() -> None:
    figure = attribution_rows({"as trained": FOUND, "renormalised": replace(FOUND, rows=(SAME, ROW, ROW))}, PROVENANCE)
    errors, logits, flips, divergence, bits, *others = figure.data
    assert list(errors.x) == [0.07, None, 0.07]
    assert list(logits.x) == [4e-3, None, 4e-3]
    assert list(flips.x) == [1.5, 0, 1.5]
    assert list(divergence.x) == [2e-3] * 3
    assert list(bits.x) == pytest.approx(BITS.place([3e-3] * 3).tolist())
    assert list(bits.error_x.array) == pytest.approx((BITS.place([4e-3] * 3) - BITS.place([3e-3] * 3)).tolist())
    assert list(bits.customdata[0]) == ["Q4_0 weights", 3e-3, 1e-3]
    assert list(others[0].x) == [None, 0.07, 0.07]
    assert [trace.name for trace in figure.data if trace.showlegend] == ["as trained", "renormalised"]
    assert list(errors.y) == [0, 1, 2]
    assert list(figure.layout.yaxis.ticktext) == ["Q4_0 weights", "scatter reversed", "Q4_0 weights"]
    assert {shape.y0 for shape in figure.layout.shapes} == {1.5}  # between the groups
    assert "2 windows, 100 tokens" in figure.layout.title.subtitle.text
    assert "computed" in figure.layout.title.subtitle.text


def test_curves_of_gains_lie_below_those_of_losses_and_have_error_bars() -> None:
    more = replace(
        OUTLIER, log2=14, steps={"fp16 operands": replace(CHANGE, perplexity_percent=8.0), "SiLU table": GAIN}
    )
    figure = outlier_curves([OUTLIER, more, replace(OUTLIER, renormalise=True)], 5.51, PROVENANCE)
    operands, table, dashed, _ = figure.data
    assert (list(operands.x), list(operands.y)) == ([12, 14], PERCENT.place([0.6, 8.0]).tolist())
    assert list(table.y) == [-operands.y[0]] * 2  # as far below 0 as the loss is above it
    assert list(operands.customdata[1]) == [8.0, 0.2]
    assert operands.y[0] + operands.error_y.array[0] == pytest.approx(float(PERCENT.place([0.8])[0]))
    assert operands.y[0] - operands.error_y.arrayminus[0] == pytest.approx(float(PERCENT.place([0.4])[0]))
    assert (operands.line.dash, dashed.line.dash) == ("solid", "dash")
    assert [shape.y0 for shape in figure.layout.shapes] == PERCENT.place([5.51]).tolist()
    assert "5.51 %" in figure.layout.title.text
    assert "2 windows, 100 tokens" in figure.layout.title.subtitle.text
