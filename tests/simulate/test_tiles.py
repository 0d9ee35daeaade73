"""Modelled time inside an invocation: by hand, its bounds, and what must not overlap."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.engine import PrefillEngine
from estream_lab.errors import EStreamError
from estream_lab.experts.order_steps import StepRecorder
from estream_lab.kernels.vtcm import Step, TilePlan, check, plan_for, plan_tiles, steps
from estream_lab.simulate.device import Device, load_device
from estream_lab.simulate.tiles import Timing, invocation_ns, modelled, step_ns, timing
from estream_lab.trace import Span, Trace
from tests.stores import SPEC, synthetic_store

from .devices import device

MIB = 1 << 20
UNITS = ("dma", "vector", "matrix")


@st.composite
def cases(draw: st.DrawFn) -> tuple[Device, TilePlan, int]:
    """Rates, a plan with several panels and row tiles, and records."""
    hidden, ffn = 32 * draw(st.integers(1, 6)), 32 * draw(st.integers(1, 6))
    rows, nf, nd = (32 * draw(st.integers(1, most)) for most in (2, ffn // 32, hidden // 32))
    rates = st.floats(0.1e9, 50e9)
    made = device(
        dma_rate=draw(rates), dma_latency=draw(st.integers(0, 500)), decode_rate=draw(rates), vector_rate=draw(rates),
        matrix_rate=100 * draw(rates),
    )  # fmt: skip
    return made, plan_for(hidden, ffn, rows, nf, nd, 8 * MIB), draw(st.integers(1, 3 * rows))


def timed(case: tuple[Device, TilePlan, int]) -> Timing:
    made, plan, rows = case
    return timing(made, plan, steps(plan, rows))


def test_steps_by_hand() -> None:
    """H = 64, F = 32, 40 rows in one row tile of 64: gate and up in one panel, down in two."""
    plan = plan_for(64, 32, 64, 32, 32, MIB)
    costs = {(s.kind, s.projection): step_ns(device(), plan, s) for s in steps(plan, 40)}
    assert costs == {
        ("fetch", "gate_up"): 10 + 2 * 2 * 576 // 2,  # two blocks of 576 bytes each, at 2 bytes/ns
        ("fetch", "down"): 10 + 576 // 2,
        ("decode", "gate_up"): 2 * 64 * 32 // 4,  # weights, at 4/ns
        ("decode", "down"): 32 * 32 // 4,
        ("gather", ""): 64 * 64,  # elements, at 1/ns
        ("matmul", "gate_up"): 2 * 64 * 32 * 64 * 2 // 64,
        ("matmul", "down"): 2 * 64 * 32 * 32 // 64,
        ("swiglu", "gate_up"): 2 * 64 * 32,
        ("scatter", "down"): 64 * 32,
    }


def test_an_invocation_by_hand() -> None:
    """One row, one panel of each: gather 1024 | fetch 1162 | decode 512 | product 128 | SwiGLU 2048 | 128/… | 1024."""
    plan = plan_for(32, 32, 32, 32, 32, MIB)
    run = steps(plan, 1)
    found = timing(device(), plan, run)
    ends = {(step.kind, step.projection): end for step, end in zip(run, found.ends, strict=True)}
    fetched = 10 + 2 * 576 // 2
    assert ends["fetch", "gate_up"] == fetched and ends["fetch", "down"] == fetched + 10 + 576 // 2
    assert ends["gather", ""] == 1024
    assert ends["decode", "gate_up"] == 1024 + 512  # behind the gather on the vector unit
    assert ends["matmul", "gate_up"] == 1536 + 2048
    assert ends["decode", "down"] == 1536 + 256
    assert ends["swiglu", "gate_up"] == 3584 + 2048
    assert ends["matmul", "down"] == 5632 + 1024
    assert ends["scatter", "down"] == found.span_ns == 6656 + 1024


@given(cases())
def test_no_unit_does_two_steps_at_once_and_what_a_step_waits_for_has_ended(case: tuple[Device, TilePlan, int]) -> None:
    found = timed(case)
    for unit in UNITS:
        times = [(start, end) for step, start, end in placed(found) if step.unit == unit]
        assert all(one[1] <= other[0] for one, other in pairwise(times))
    for step, start, _ in placed(found):
        assert all(found.ends[wait] <= start for wait in step.waits)


@given(cases())
def test_no_two_steps_that_touch_the_same_bytes_overlap_if_one_writes(case: tuple[Device, TilePlan, int]) -> None:
    """Buffers live as the plan has it: the checker finds no fault in the order, and the times keep to it."""
    _, plan, _ = case
    found = timed(case)
    assert not check(plan, found.steps)
    for at, (one, start, end) in enumerate(placed(found)):
        for other, begin, until in placed(found)[:at]:
            if begin < end and start < until:
                assert not touch(one.writes, (*other.reads, *other.writes))
                assert not touch(one.reads, other.writes)


@given(cases())
def test_an_invocation_takes_no_less_than_its_busiest_unit_and_no_more_than_all_steps(
    case: tuple[Device, TilePlan, int],
) -> None:
    found = timed(case)
    busy = [found.busy_ns(unit) for unit in UNITS]
    assert max(busy) <= found.span_ns <= sum(busy)
    made, plan, rows = case
    assert sum(busy) == sum(step_ns(made, plan, step) for step in steps(plan, rows))
    assert invocation_ns(made, plan, [rows, 0, rows]) == 2 * found.span_ns


@given(cases())
def test_a_faster_unit_never_makes_an_invocation_longer(case: tuple[Device, TilePlan, int]) -> None:
    made, plan, rows = case
    for rate in ("dma_rate", "decode_rate", "vector_rate", "matrix_rate"):
        faster = made.with_values({}, {rate: 2 * made[rate]})
        assert timed((faster, plan, rows)).span_ns <= timed(case).span_ns


def placed(found: Timing) -> list[tuple[Step, int, int]]:
    return list(zip(found.steps, found.starts, found.ends, strict=True))


def touch(some: Sequence[object], others: Sequence[object]) -> bool:
    """Whether any access of the one shares bytes with any of the others."""
    return any(
        one.region == other.region and one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes  # type: ignore[attr-defined]
        for one in some
        for other in others
    )


# ---- the exact executor's steps


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    store: Path = synthetic_store(tmp_path_factory.mktemp("tiles"))
    with PrefillEngine.open(store, executor="exact", record_steps=True, group_size=3, route_capacity=40) as engine:
        steps_of = engine.prefill(list(range(96))).steps
    assert steps_of is not None
    return steps_of


def test_recorded_steps_get_modelled_times(recorded: Trace) -> None:
    phone = load_device("phone")
    found = modelled(recorded, phone, SPEC.hidden, SPEC.ffn)
    assert {span.clock for span in found.spans} == {"modelled"}
    assert sorted(map(bare, found.spans)) == sorted(map(bare, recorded.spans))
    for unit in UNITS:
        mine = found.select(unit)
        assert all(one.end_ns <= other.start_ns for one, other in pairwise(mine))
        assert [bare(span) for span in mine] == [bare(span) for span in recorded.select(unit)]
    assert found.provenance["kind"] == "steps with modelled times (assumed rates)"
    assert found.provenance["device"] == "phone"


def test_they_take_as_long_as_the_slots_rows_take(recorded: Trace) -> None:
    phone = load_device("phone")
    facts = recorded.provenance
    plan = plan_tiles(SPEC.hidden, SPEC.ffn, 40, int(facts["vtcm_bytes"]))
    # 40 rows at most: one row tile, so one gather a visit
    visits = [span.rows or 0 for span in recorded.select("vector", name="gather")]
    assert sum(visits) == 3 * 96 * SPEC.router.top_k and plan.rows >= 40
    found = modelled(recorded, phone, SPEC.hidden, SPEC.ffn)
    assert max(span.end_ns for span in found.spans) == invocation_ns(phone, plan, visits)


def bare(span: Span) -> tuple[object, ...]:
    """A step without its times."""
    where = (span.layer, span.group, span.bank, span.slot, -1 if span.tile is None else span.tile)
    return span.unit, span.name, *where, span.rows or 0, span.bytes or 0


def test_a_visit_of_several_row_tiles_is_one() -> None:
    plan = plan_for(64, 64, 32, 32, 32, MIB)
    recorder = StepRecorder()
    tell = recorder.listener(np.array([0, 1], np.int32))
    for slot, rows in ((0, 70), (1, 5), (0, 33)):
        tell(slot, steps(plan, rows))
    facts = {"tile_rows": 32, "ffn_panel_columns": 32, "hidden_panel_columns": 32, "vtcm_bytes": MIB}
    found = modelled(recorder.trace(facts), device(), 64, 64)
    assert max(span.end_ns for span in found.spans) == invocation_ns(device(), plan, [70, 5, 33])


def test_other_traces_are_refused(recorded: Trace) -> None:
    phone = load_device("phone")
    with pytest.raises(EStreamError, match="not those of their tile plan"):
        modelled(recorded, phone, SPEC.hidden, 2 * SPEC.ffn)
    with pytest.raises(EStreamError, match="doesn't say its tile plan"):
        modelled(replace(recorded, provenance={}), phone, SPEC.hidden, SPEC.ffn)
    with pytest.raises(EStreamError, match="no steps from their beginning"):
        modelled(replace(recorded, spans=recorded.spans[3:]), phone, SPEC.hidden, SPEC.ffn)
    with pytest.raises(EStreamError, match="no steps from their beginning"):
        modelled(replace(recorded, spans=()), phone, SPEC.hidden, SPEC.ffn)
    short = tuple(span for span in recorded.spans if span.name != "scatter down" or span.layer)
    with pytest.raises(EStreamError, match="not those of their tile plan"):
        modelled(replace(recorded, spans=short), phone, SPEC.hidden, SPEC.ffn)
