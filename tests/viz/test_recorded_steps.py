"""Steps read off a recorded run: each visit of a slot by itself."""

from collections.abc import Iterable, Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.experts.order_steps import StepRecorder
from estream_lab.kernels.vtcm import TilePlan, plan_for, steps
from estream_lab.trace import Trace
from estream_lab.viz.figures.step_diagram import Placed, placed, recorded

PLANS = tuple(
    plan_for(*sizes, 1 << 20) for sizes in ((32, 32, 32, 32, 32), (128, 192, 64, 96, 64), (64, 32, 32, 32, 64))
)


def run_of(plan: TilePlan, visits: Iterable[tuple[int, int, int, int]]) -> Trace:
    """What a run records that visits slots: layer, group, slot, records."""
    recorder = StepRecorder()
    for layer, group, slot, rows in visits:
        recorder.place(layer=layer, group=group, bank=0)
        recorder.listener(np.array([slot], np.int32))(0, steps(plan, rows))
    return recorder.trace({})


def plain(found: Sequence[Placed]) -> list[tuple[int, str, str, str]]:
    return sorted((step.place, step.unit, step.kind, step.name) for step in found)


def test_a_recorded_run_gives_the_same_steps() -> None:
    plan = PLANS[1]
    trace = run_of(plan, [(0, 0, 5, 40), (1, 0, 5, 100), (1, 0, 6, 40)])
    assert plain(recorded(trace, layer=1, slot=5)) == plain(placed(steps(plan, 100)))  # two row tiles
    assert recorded(trace, layer=2, slot=5) == ()
    assert recorded(trace, layer=1, slot=5, visit=1) == recorded(trace, layer=1, slot=5, visit=-1) == ()


def test_another_group_in_the_bank_and_another_invocation_are_visits_of_their_own() -> None:
    plan = PLANS[1]
    trace = run_of(plan, [(0, 0, 5, 100), (0, 0, 5, 40), (0, 0, 6, 64), (0, 2, 5, 7)])  # more than C, other slot, group
    for visit, rows in enumerate((100, 40, 7)):
        assert plain(recorded(trace, 0, 5, visit)) == plain(placed(steps(plan, rows)))
    assert recorded(trace, 0, 5, 3) == ()


@given(st.sampled_from(PLANS), st.lists(st.integers(1, 200), min_size=1, max_size=4))
def test_visits_are_told_apart_whatever_their_row_tiles(plan: TilePlan, rows: list[int]) -> None:
    trace = run_of(plan, [(0, 0, 3, count) for count in rows])
    found = [plain(recorded(trace, 0, 3, visit)) for visit in range(len(rows) + 1)]
    assert found == [*(plain(placed(steps(plan, count))) for count in rows), []]
