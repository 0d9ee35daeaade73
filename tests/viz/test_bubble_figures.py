"""The figures of the pipeline lesson: bubbles, distances, the recurrence's table, and the replay's drawing."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import plotly.graph_objects as go
import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import AfterRouting, Early, Schedule
from estream_lab.simulate import LayerTimes, ServiceTimes, Timetable, by_hand, recurrence, replay, timetable
from estream_lab.trace import Trace, npu_idle, storage_idle
from estream_lab.trace.bubbles import CAUSES, bubbles
from estream_lab.viz.explore.live import changes
from estream_lab.viz.figures.bubbles import CAUSE_COLOURS, PAIR, bubble_bars, bubble_timeline
from estream_lab.viz.figures.distance import distance, distances
from estream_lab.viz.figures.recurrence import recurrence_table
from estream_lab.viz.figures.replayed import COLOURS, replay_drawing

from .hand_made import PROVENANCE

MS = 1_000_000
BANKS = PAIR  # row of bank 0
A = ServiceTimes(
    (LayerTimes(0, 5 * MS, (4 * MS,) * 4, {k: x * MS for k, x in enumerate((2, 3, 1, 2))}),), provenance=PROVENANCE
)
"""Worked example A, in ms."""


def run(schedule: Schedule, banks: int = 2, times: ServiceTimes = A) -> Trace:
    return replay(times, Policies(schedule), banks=banks, queue_depth=2)


def measured(schedule: Schedule) -> Trace:
    """As if a lane had emitted it."""
    return replace(run(schedule), provenance=PROVENANCE)


DRAWN: dict[str, Callable[[], Any]] = {
    "bubble_bars": lambda: bubble_bars({"early": measured(Early()), "after": measured(AfterRouting())}),
    "bubble_timeline": lambda: bubble_timeline({"early": measured(Early()), "after": measured(AfterRouting())}),
    "distances": lambda: distances({"early": measured(Early())}, {"replayed": {"early": run(Early())}}),
}


def bars(figure: go.Figure, name: str) -> list[tuple[float, float, float]]:
    """(row, start, end) of the bars of a trace."""
    (found,) = [each for each in figure.data if each.name == name]
    return [(y, base, base + x) for y, base, x in zip(found.y, found.base, found.x, strict=True)]


def test_the_timeline_shows_work_in_grey_and_each_bubble_in_its_causes_colour() -> None:
    """Early: a = 0,0,7,10; d = 4,4,11,14; s = 5,7,11,14; f = 7,10,12,16."""
    figure = bubble_timeline({"early": run(Early())})
    assert bars(figure, "reads") == [(0, 0, 4), (0, 7, 14)]
    assert bars(figure, "non-expert work") == [(1, 0, 5)]
    assert bars(figure, "experts") == [(1, 5, 7), (1, 7, 10), (1, 11, 12), (1, 14, 16)]
    assert bars(figure, "bank") == [(0, 4, 7)]
    assert bars(figure, "data") == [(1, 10, 11), (1, 12, 14)]
    assert bars(figure, "nothing left") == [(0, 14, 16)]
    assert bars(figure, "routes") == []
    assert [each.name for each in figure.data][3:] == list(CAUSES)
    assert set(CAUSE_COLOURS) == set(CAUSES)
    assert len({str(each.marker.color) + str(each.marker.pattern.shape) for each in figure.data}) == 3 + len(CAUSES)
    assert list(figure.layout.yaxis.ticktext) == ["early, storage", "early, compute"]
    assert CAUSES["bank"] in next(each for each in figure.data if each.name == "bank").customdata[0]


def test_the_shares_stack_up_to_the_idle_shares() -> None:
    traces = {"early": run(Early()), "after": run(AfterRouting())}
    figure = bubble_bars(traces)
    totals = [sum(each.x[row] for each in figure.data) for row in range(4)]
    wanted = [100 * share(trace) for trace in traces.values() for share in (storage_idle, npu_idle)]
    assert totals == pytest.approx(wanted)
    routes = next(each for each in figure.data if each.name == "routes")
    assert list(routes.x) == pytest.approx([0, 0, 25, 0])  # 5 of 20
    assert [note.text for note in figure.layout.annotations][:2] == ["31.2 %", "18.8 %"]


def test_distances_set_simulations_apart_and_print_how_far_they_are() -> None:
    slow = {"early": run(AfterRouting())}
    figure = distances({"early": measured(Early())}, {"replayed": {"early": run(Early())}, "foretold": slow})
    real, same, other = figure.data
    assert (list(real.y), list(same.y), list(other.y)) == ([16], [16], [20])
    assert (list(real.text), list(same.text), list(other.text)) == (["16.0 ms"], ["+0.0%"], ["+25.0%"])
    assert (real.marker.pattern.shape, same.marker.pattern.shape) == (None, "/")
    assert "simulated from measured service times" in figure.layout.title.text
    assert distance(12, 16) == -0.25


def test_the_table_marks_where_recurrence_and_replay_part() -> None:
    hand = ([4, 4, 4, 4], [2, 3, 1, 2], 5)
    same = recurrence_table(*hand[:2], recurrence(*hand, 2, 2), timetable(run(Early(), times=by_hand(*hand))), "B=2")
    assert list(same.data[0].cells["values"][3]) == ["0", "0", "7", "10"]
    assert same.layout.title.text == "Recurrence and replay: the same times"
    assert "service times made up · B=2" in same.layout.title.subtitle.text
    lanes = ([9, 1, 1, 1], [1, 1, 1, 1], 2)
    places = timetable(run(Early(), 4, by_hand(*lanes)))
    other = recurrence_table(*lanes[:2], recurrence(*lanes, 4, 2), places)
    assert list(other.data[0].cells["values"][4]) == ["9", "1", "10, replayed 2", "2, replayed 3"]
    assert other.layout.title.text == "Recurrence and replay differ"
    with pytest.raises(ValueError, match="zip"):
        recurrence_table(*lanes[:2], recurrence(*lanes, 4, 2), Timetable((0,), (1,), (1,), (2,)))


def test_the_replays_drawing_shows_pipeline_and_banks_and_says_that_it_is_simulated() -> None:
    trace = run(Early())
    figure = go.Figure(replay_drawing(trace, bubbles(trace), 4, 30 * MS))
    assert figure.layout.title.text == "Simulated from measured service times"
    assert figure.layout.title.subtitle.text.startswith("simulated from measured service times · simulator lane")
    held = bars(figure, "banks")
    assert held == [
        (BANKS, 0, 4), (BANKS, 4, 5), (BANKS, 5, 7), (BANKS, 7, 11), (BANKS, 11, 12),
        (BANKS + 1, 0, 4), (BANKS + 1, 4, 7), (BANKS + 1, 7, 10), (BANKS + 1, 10, 14), (BANKS + 1, 14, 16),
    ]  # fmt: skip
    shown = dict(zip(bars(figure, "pipeline"), figure.data[0].marker.color, strict=True))
    assert shown[0, 4, 7] == CAUSE_COLOURS["bank"]
    assert shown[1, 10, 11] == CAUSE_COLOURS["data"]
    assert shown[1, 0, 5] == COLOURS["non-expert work"]
    assert CAUSES["bank"] in next(text for text in figure.data[0].customdata if "<b>bank</b>" in text)
    for cause in CAUSES:
        assert (f'{CAUSE_COLOURS[cause]}">■</span> {cause}' in figure.layout.title.subtitle.text) is (
            cause != "nothing left"
        )
    json.dumps(figure.to_plotly_json(), default=lambda array: array.tolist())


def test_between_settings_only_the_bars_of_the_drawing_change() -> None:
    drawings = []
    for banks, schedule in ((1, Early()), (2, Early()), (4, AfterRouting())):
        trace = run(schedule, banks)  # 25, 16 and 17 ms
        drawings.append(replay_drawing(trace, bubbles(trace), 4, 50 * MS))
    first, *others = drawings
    assert all(other["layout"] == first["layout"] for other in others)
    assert {path for other in others for path in changes(first["data"][0], other["data"][0])} == {
        "x", "base", "y", "customdata", "marker.color",
    }  # fmt: skip
    ends = [replay_drawing(run(Early()), [], 4, unit * MS)["layout"]["xaxis"]["range"][1] for unit in (8, 15, 16, 32)]
    assert ends == [20, 22.5, 24, 32]  # 16 ms: two halves more than the unit, not just filled


def test_a_trace_without_routes_is_told() -> None:
    trace = run(Early())
    with pytest.raises(EStreamError, match="what was routed"):
        bubble_timeline({"": Trace(tuple(span for span in trace.spans if span.unit != "plan"), trace.provenance)})
