"""The critical path: its terms are the recurrence's, it has no gap, and what lies on it alone sets the layer's time."""

import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.simulate import ScheduledLayer
from estream_lab.simulate.critical_path import (
    BANK,
    EXECUTION,
    NON_EXPERT,
    NPU,
    QUEUE,
    READ,
    START,
    Step,
    binding,
)

A = ScheduledLayer((4, 4, 4, 4), (2, 3, 1, 2), 5, banks=2, queue_depth=2)
B = ScheduledLayer((9, 1, 1, 1), (1, 1, 1, 1), 2, banks=4, queue_depth=2)


@st.composite
def scheduled(draw: st.DrawFn) -> ScheduledLayer:
    groups = draw(st.integers(1, 7))
    times = st.lists(st.integers(0, 9), min_size=groups, max_size=groups).map(tuple)
    return ScheduledLayer(
        draw(times), draw(times), draw(st.integers(0, 20)), draw(st.integers(1, 8)), draw(st.integers(1, 4)),
        draw(st.sampled_from(("early", "after-routing", "on-demand"))),
    )  # fmt: skip


def test_the_path_of_worked_example_a() -> None:
    assert A.path == (
        Step(NON_EXPERT, -1, 0, 5, START),
        Step(EXECUTION, 0, 5, 7, NON_EXPERT),
        Step(EXECUTION, 1, 7, 10, NPU),
        Step(READ, 3, 10, 14, BANK),
        Step(EXECUTION, 3, 14, 16, READ),
    )
    assert [step.waited_for for step in replace(A, banks=3).path] == [START, NON_EXPERT, BANK, READ]
    after = replace(A, schedule="after-routing").path
    assert [(step.kind, step.k) for step in after[:2]] == [(NON_EXPERT, -1), (READ, 0)]


def test_the_long_first_read_of_worked_example_b_is_followed_by_executions_alone() -> None:
    assert [(step.kind, step.k, step.waited_for) for step in B.path] == [
        (READ, 0, START), (EXECUTION, 0, READ), (EXECUTION, 1, NPU), (EXECUTION, 2, NPU), (EXECUTION, 3, NPU),
    ]  # fmt: skip


def test_a_read_waits_for_the_one_that_holds_its_queue_place() -> None:
    layer = ScheduledLayer((2, 1, 1, 4), (1, 1, 1, 1), 0, banks=4, queue_depth=3)
    assert layer.path == (Step(READ, 0, 0, 2, START), Step(READ, 3, 2, 6, QUEUE), Step(EXECUTION, 3, 6, 7, READ))
    before = replace(layer, queue_depth=2).path
    assert [(step.kind, step.k) for step in before] == [(READ, 1), (READ, 3), (EXECUTION, 3)]


@given(layer=scheduled())
def test_each_time_is_the_maximum_of_its_terms(layer: ScheduledLayer) -> None:
    groups = range(len(layer.reads))
    assert tuple(binding(layer.read_terms(k)).time for k in groups) == layer.times.a
    assert tuple(binding(layer.run_terms(k)).time for k in groups) == layer.times.s


@given(layer=scheduled())
def test_the_path_leads_from_the_start_to_the_end_without_a_gap(layer: ScheduledLayer) -> None:
    assert layer.path[0].start == 0 and layer.path[-1].end == layer.pipe_time
    assert [step.end for step in layer.path[:-1]] == [step.start for step in layer.path[1:]]
    assert layer.path[0].waited_for == START
    assert len(set(layer.path)) == len(layer.path)


@given(layer=scheduled(), more=st.integers(1, 9), data=st.data())
def test_what_lies_on_the_path_delays_the_end_and_what_does_not_may_vanish(
    layer: ScheduledLayer, more: int, data: st.DataObject
) -> None:
    on = {(step.kind, step.k) for step in layer.path}
    kind, k = data.draw(st.sampled_from(sorted(on)))
    assert changed(layer, kind, k, more).pipe_time >= layer.pipe_time + more
    everything = {(NON_EXPERT, -1), *((each, k) for each in (READ, EXECUTION) for k in range(len(layer.reads)))}
    for kind, k in everything - on:
        assert changed(layer, kind, k, -time_of(layer, kind, k)).pipe_time == layer.pipe_time


def time_of(layer: ScheduledLayer, kind: str, k: int) -> int:
    return layer.non_expert if kind == NON_EXPERT else (layer.reads if kind == READ else layer.runs)[k]


def changed(layer: ScheduledLayer, kind: str, k: int, more: int) -> ScheduledLayer:
    """With one service time longer by ``more``."""
    if kind == NON_EXPERT:
        return replace(layer, non_expert=layer.non_expert + more)
    name = "reads" if kind == READ else "runs"
    times = list(getattr(layer, name))
    times[k] += more
    return replace(layer, **{name: tuple(times)})


def test_groups_keep_their_names_in_another_order() -> None:
    other = A.in_order([3, 0, 2, 1])
    assert (A.names, other.names, other.runs) == ((1, 2, 3, 4), (4, 1, 3, 2), (2, 2, 1, 3))
    assert other.in_order([1, 3, 2, 0]) == A


def test_what_is_no_layer_is_told() -> None:
    for wrong in ({"banks": 0}, {"queue_depth": 0}, {"reads": (), "runs": (), "names": ()}):
        with pytest.raises(EStreamError, match="has no schedule"):
            replace(A, **wrong)
    with pytest.raises(EStreamError, match="2 names don't fit 4 groups"):
        replace(A, names=(1, 2))
    with pytest.raises(EStreamError, match="3 reads and 4 executions"):
        replace(A, reads=(1, 2, 3), names=())
    with pytest.raises(EStreamError, match="unknown schedule 'late'"):
        replace(A, schedule="late")


def test_what_is_no_layer_is_told_by_a_python_without_asserts() -> None:
    code = "from estream_lab.simulate import ScheduledLayer; ScheduledLayer((1, 2), (1,), 1, 1, 1)"
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "EStreamError: 2 reads and 1 executions" in done.stderr
