"""The recurrence, held to values worked out by hand."""

import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts.decide import Policies
from estream_lab.experts.schedule import Early
from estream_lab.simulate import LayerTimes, ServiceTimes, Timetable, by_hand, recurrence, replay, timetable

A = ([4, 4, 4, 4], [2, 3, 1, 2], 5)


def test_worked_example_a() -> None:
    assert recurrence(*A, 2, 2) == Timetable((0, 0, 7, 10), (4, 4, 11, 14), (5, 7, 11, 14), (7, 10, 12, 16))
    assert recurrence(*A, 3, 2) == Timetable((0, 0, 4, 7), (4, 4, 8, 11), (5, 7, 10, 11), (7, 10, 11, 13))
    assert recurrence(*A, 1, 1).f == (7, 14, 19, 25)
    assert recurrence(*A, 2, 2, "after-routing").f == (11, 14, 16, 20)
    assert recurrence(*A, 2, 2, "on-demand") == Timetable(
        (5, 11, 18, 23), (9, 15, 22, 27), (9, 15, 22, 27), (11, 18, 23, 29)
    )


def test_worked_example_b_takes_lanes_literally() -> None:
    found = recurrence([9, 1, 1, 1], [1, 1, 1, 1], 2, 4, 2)
    assert found == Timetable((0, 0, 9, 1), (9, 1, 10, 2), (9, 10, 11, 12), (10, 11, 12, 13))


def test_a_timetable_is_read_from_the_request_and_pass_that_come_first() -> None:
    layer = LayerTimes(2, 1, (2, 3), {0: 1, 1: 1})
    trace = replay([ServiceTimes((layer, layer), lead_ns=5)] * 2, Policies(Early()), banks=2, queue_depth=1)
    assert timetable(trace, 2) == Timetable((5, 7), (7, 10), (7, 10), (8, 11))


def test_groups_without_routes_are_left_out() -> None:
    trace = replay(by_hand([2, 2, 2], [1, 1], 3, needed=[0, 2]), Policies(Early()), banks=2, queue_depth=2)
    assert timetable(trace).a == (0, 3)


def test_what_has_no_timetable_is_told() -> None:
    with pytest.raises(EStreamError, match="unknown schedule 'late'"):
        recurrence(*A, 1, 1, "late")
    with pytest.raises(EStreamError, match="2 reads and 1 executions"):
        recurrence([1, 1], [1], 0, 1, 1)
    with pytest.raises(EStreamError, match="no expert ran in layer 7"):
        timetable(replay(by_hand(*A), Policies(Early()), banks=1, queue_depth=1), 7)
