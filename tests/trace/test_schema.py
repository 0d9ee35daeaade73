import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.trace import Span, Trace

from .traces import TRACES


def span(**fields: object) -> Span:
    values = {"lane": "host", "clock": "host", "unit": "storage", "name": "read", "start_ns": 5, "duration_ns": 2}
    return Span(**{**values, **fields})  # type: ignore[arg-type]


@given(trace=TRACES)
def test_json_gives_back_an_equal_trace_with_equal_types(
    trace: Trace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "round_trip.json"
    trace.to_json(path)
    back = Trace.from_json(path)
    assert back == trace
    assert [(key, type(value)) for key, value in back.provenance.items()] == [
        (key, type(value)) for key, value in trace.provenance.items()
    ]


@given(trace=TRACES)
def test_spans_are_sorted_and_a_span_precedes_what_it_contains(trace: Trace) -> None:
    for earlier, later in pairwise(trace.spans):
        assert earlier.start_ns <= later.start_ns
        assert earlier.start_ns < later.start_ns or earlier.end_ns >= later.end_ns


@given(trace=TRACES, unit=st.none() | st.just("storage"), layer=st.none() | st.integers(0, 3))
def test_select_keeps_exactly_what_was_asked_for(trace: Trace, unit: str | None, layer: int | None) -> None:
    kept = trace.select(unit, layer)
    wanted = [s for s in trace.spans if (unit is None or s.unit == unit) and (layer is None or s.layer == layer)]
    assert list(kept) == wanted


def test_layer_zero_is_a_layer() -> None:
    trace = Trace((span(layer=0), span(layer=1)))
    assert [s.layer for s in trace.select(layer=0)] == [0]
    assert span(layer=0).details() == {"layer": 0}


def test_a_span_refuses_a_foreign_clock_a_float_and_a_negative_duration() -> None:
    with pytest.raises(ValueError, match="wall"):
        span(clock="wall")
    with pytest.raises(TypeError, match="integers"):
        span(start_ns=1.5)
    with pytest.raises(ValueError, match="before it starts"):
        span(duration_ns=-1)


@pytest.mark.parametrize("value", [math.nan, math.inf, None, [1]])
def test_provenance_refuses_what_json_cannot_carry(value: object) -> None:
    with pytest.raises(TypeError, match="machine"):
        Trace((), {"machine": value})  # type: ignore[dict-item]


def test_request_time_is_the_request_spans_time_or_the_extent() -> None:
    reads = (span(start_ns=10, duration_ns=5), span(start_ns=12, duration_ns=1))
    assert Trace(reads).request_ns == 5
    assert Trace((*reads, span(unit="request", start_ns=0, duration_ns=40))).request_ns == 40
    assert Trace().request_ns == 0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "no JSON"),
        ("[1]", "not a trace of EStream Lab"),
        ('{"format": "estream-trace", "version": 99}', "version 99"),
        ('{"format": "estream-trace", "version": 1}', "damaged"),
    ],
)
def test_another_file_is_refused_by_name(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(EStreamError, match=message) as caught:
        Trace.from_json(path)
    assert "other.json" in str(caught.value)


def test_a_missing_file_and_a_damaged_span_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EStreamError, match=r"absent\.json"):
        Trace.from_json(tmp_path / "absent.json")
    path = tmp_path / "damaged.json"
    Trace((span(),)).to_json(path)
    document = json.loads(path.read_text())
    document["spans"][0].pop()
    path.write_text(json.dumps(document))
    with pytest.raises(EStreamError, match="damaged"):
        Trace.from_json(path)
