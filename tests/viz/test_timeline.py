from collections import Counter
from itertools import pairwise

import plotly.graph_objects as go
from hypothesis import given, settings
from hypothesis import strategies as st

from estream_lab.trace import Span, Trace, assign_tracks
from estream_lab.viz.figures import timeline
from estream_lab.viz.figures.banks import bank_states
from estream_lab.viz.figures.timeline import KINDS, layer_windows

from .hand_made import MS, UP, span, trace


def bars(figure: go.Figure, subplot: int = 0) -> list[tuple[str, str, float, float]]:
    """(legend name, row, start, duration) of all bars of a subplot."""
    suffix = "" if subplot == 0 else str(subplot + 1)
    names = figure.layout[f"yaxis{suffix}"].ticktext
    drawn = figure.data[subplot * len(KINDS) : (subplot + 1) * len(KINDS)]
    assert all(item.yaxis == f"y{suffix}" for item in drawn)
    return [
        (item.name, names[y], round(base, 9), round(x, 9))
        for item in drawn
        for base, x, y in zip(item.base, item.x, item.y, strict=True)
    ]


def test_the_hand_made_trace_is_drawn_bar_for_bar() -> None:
    assert Counter(bars(timeline(trace()))) == Counter(
        [
            ("non-expert work", "non-expert", 0, 1),
            ("non-expert work", "non-expert", 1, 4),
            ("non-expert work", "non-expert", 13, 7),
            ("non-expert work", "non-expert", 28, 2),
            ("waiting for data", "experts", 5, 1),
            ("experts", "experts", 6, 3),
            ("experts", "experts", 9, 1),
            ("experts", "experts", 12, 1),
            ("experts", "experts", 20, 8),
            ("reads", "reads", 1, 5),
            ("reads", "reads 2", 2, 5),
            ("reads", "reads", 13, 5),
            ("reads", "reads", 18, 4),
            ("reads", "bank 0", 1, 5),
            ("experts", "bank 0", 6, 3),
            ("reads", "bank 0", 13, 5),
            ("bank ready", "bank 0", 18, 2),
            ("experts", "bank 0", 20, 8),
            ("reads", "bank 1", 2, 5),
            ("bank ready", "bank 1", 7, 2),
            ("experts", "bank 1", 9, 1),
            ("bank ready", "bank 1", 10, 2),
            ("experts", "bank 1", 12, 1),
            ("reads", "bank 1", 18, 4),
        ]
    )


def test_the_rows_come_in_the_order_that_data_takes() -> None:
    figure = timeline(trace())
    assert figure.layout.yaxis.ticktext == ("non-expert", "experts", "reads", "reads 2", "bank 0", "bank 1")
    assert figure.layout.yaxis.range == (5.5, -0.5)  # the first row on top


READS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9), st.integers(0, 3)), min_size=1, max_size=12)


@settings(max_examples=30)
@given(reads=READS)
def test_reads_of_a_row_never_overlap_and_none_is_lost(reads: list[tuple[int, int, int]]) -> None:
    spans = tuple(span("storage", "read", start, start + length, group=g) for start, length, g in reads)
    drawn = bars(timeline(Trace((span("request", "prefill", 0, 60), *spans))))
    assert Counter((start, duration) for _, _, start, duration in drawn) == Counter((s, n) for s, n, _ in reads)
    for row in {row for _, row, _, _ in drawn}:
        line = sorted((start, start + duration) for _, other, start, duration in drawn if other == row)
        assert all(a[1] <= b[0] + 1e-9 for a, b in pairwise(line))
    assert len({row for _, row, _, _ in drawn}) == max(assign_tracks(spans)) + 1


def test_banks_without_a_read_or_a_use_are_told_as_they_are() -> None:
    resident = Trace((span("expert", "expert group", 3, 5, bank=0),))
    assert [(s.name, s.start_ns - UP) for s in bank_states(resident)] == [("in use", 3 * MS)]
    unneeded = Trace((span("storage", "read", 0, 2, bank=0), span("storage", "read", 4, 5, bank=0)))
    assert [s.name for s in bank_states(unneeded)] == ["filling", "filling"]


def test_schedules_share_one_axis_and_each_kind_is_in_the_legend_once() -> None:
    figure = timeline({"on-demand": Trace(), "early": trace(), "late": trace()})
    assert len(figure.data) == 3 * len(KINDS)
    assert bars(figure, 1) == bars(timeline(trace())) == bars(figure, 2)
    assert figure.layout.xaxis.matches == figure.layout.xaxis2.matches == "x3"
    shown = [item.name for item in figure.data if item.showlegend]
    assert sorted(shown) == ["bank ready", "experts", "non-expert work", "reads", "waiting for data"]


def test_the_heading_tells_time_and_idle_shares_and_the_subtitle_the_origin() -> None:
    figure = timeline({"early": trace()})
    heading = figure.layout.annotations[0].text
    assert heading == "<b>early</b>  30.0 ms · storage idle 50.0% · compute idle 10.0%"
    subtitle = figure.layout.title.subtitle.text
    for part in ("emulated", "host lane", "a &lt;fast> machine", "G=2 B=2 Q=2", "reads limited to 20 MB/s (declared)"):
        assert part in subtitle


def test_only_what_runs_have_in_common_stands_above_all_of_them() -> None:
    other = Trace(trace().spans, {**trace().provenance, "schedule": "on-demand", "group_size": 4})
    subtitle = timeline({"a": trace(), "b": other}).layout.title.subtitle.text
    assert "B=2 Q=2" in subtitle
    assert "G=" not in subtitle
    assert "early" not in subtitle


def test_numbered_steps_are_drawn_as_steps() -> None:
    steps = (Span("exact", "order", "dense", "attention", 4, 1), Span("exact", "order", "dma", "fetch", 5, 2, tile=3))
    figure = timeline(Trace(steps))
    assert bars(figure) == [("non-expert work", "non-expert", 0, 1), ("other units", "dma", 1, 2)]
    assert figure.layout.xaxis.title.text == "step"
    assert "ms" not in figure.layout.annotations[0].text
    assert "ms" not in figure.data[-1].customdata[0]


def test_layers_are_marked_from_their_first_dense_work_to_the_next_layer() -> None:
    assert layer_windows(trace()) == [(0, 1, 13), (1, 13, 28)]
    chunks = [span("dense", "attention", 10 * i, 10 * i + 2, layer=i % 2) for i in range(4)]
    assert layer_windows(Trace(tuple(chunks))) == [(0, 0, 10), (1, 10, 20), (0, 20, 30), (1, 30, 32)]
    labels = [a.text for a in timeline(trace()).layout.annotations[1:]]
    assert labels == ["layer 0", "layer 1"]


def test_a_layer_is_named_only_where_its_name_fits() -> None:
    starts = [0, 500, 540, 541, 600]  # of layers 0 to 3, and the end
    work = [span("dense", "attention", a, b, layer=i) for i, (a, b) in enumerate(pairwise(starts))]
    figure = timeline(Trace(tuple(work)))
    assert [a.text for a in figure.layout.annotations[1:]] == ["layer 0", "1", "layer 3"]
    assert len(figure.layout.shapes) == 2


def test_a_trace_without_work_is_drawn_empty() -> None:
    figure = timeline({"none": Trace(), "waits": Trace((span("wait", "wait for group", 0, 1),))})
    assert len(figure.data) == 2 * len(KINDS)
    assert figure.layout.annotations[0].text == "<b>none</b>  nothing recorded"
    assert bars(figure, 0) == []


def test_the_pointer_tells_bytes_rate_and_time() -> None:
    read = timeline(trace()).data[list(KINDS).index("storage")].customdata[0]
    assert read == "<b>read</b><br>layer 0, group 0, bank 0<br>4.0 KiB, 0.00 GB/s<br>5.000 ms from 1.000 ms"
