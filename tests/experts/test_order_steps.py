"""Places of steps that take one each: units in order, waits kept, and no later than that."""

from estream_lab.experts.order_steps import STEP_UNITS, positions
from estream_lab.kernels.vtcm import plan_for, steps

PLAN = plan_for(128, 96, 32, 32, 32, 1 << 20)


def test_a_step_is_as_early_as_its_unit_and_its_waits_allow() -> None:
    made = steps(PLAN, 60)
    places = positions(made)
    for step, place in zip(made, places, strict=True):
        on_unit = [places[s.index] for s in made[: step.index] if s.unit == step.unit]
        bounds = [*on_unit[-1:], *(places[w] for w in step.waits)]
        assert place == max(bounds, default=-1) + 1
    assert positions(()) == []
    for unit in STEP_UNITS:
        of_unit = [p for s, p in zip(made, places, strict=True) if s.unit == unit]
        assert of_unit == sorted(set(of_unit))  # one at a time


def test_units_work_side_by_side() -> None:
    made = steps(PLAN, 32)
    places = positions(made)
    assert max(places) + 1 < len(made)
    together = {p: {s.unit for s, q in zip(made, places, strict=True) if q == p} for p in places}
    assert any(units == set(STEP_UNITS) for units in together.values())
