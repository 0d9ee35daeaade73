import dataclasses
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estream_lab.errors import EStreamError
from estream_lab.kernels.vtcm.plan import CONSTANTS, TilePlan, plan_for
from estream_lab.kernels.vtcm.steps import UNIT_OF, Step, steps

MIB = 1 << 20
GRANULE = 64  # every access is whole granules of so many bytes


@st.composite
def plans(draw: st.DrawFn) -> tuple[TilePlan, int]:
    hidden, ffn = 32 * draw(st.integers(1, 7)), 32 * draw(st.integers(1, 7))
    tile_rows, nf, nd = (32 * draw(st.integers(1, most)) for most in (3, ffn // 32, hidden // 32))
    return plan_for(hidden, ffn, tile_rows, nf, nd, 8 * MIB), draw(st.integers(1, 3 * tile_rows + 1))


@given(plans())
def test_every_row_and_column_is_worked_on_once(drawn: tuple[TilePlan, int]) -> None:
    plan, rows = drawn
    outputs = {"gate_up": plan.ffn, "down": plan.hidden}
    done = {kind: Counter[tuple[str, int, int]]() for kind in ("matmul", "swiglu", "scatter")}
    gathered = Counter[int]()
    for step in steps(plan, rows):
        records = range(step.first_row, step.first_row + step.rows)
        if step.kind == "gather":
            gathered.update(records)
        if step.kind in done:
            strips = range(step.first_column // 32, (step.first_column + step.columns) // 32)
            done[step.kind].update((step.projection, record, strip) for record in records for strip in strips)
    all_of = {
        name: Counter((name, row, strip) for row in range(rows) for strip in range(outputs[name] // 32))
        for name in outputs
    }
    assert gathered == Counter(range(rows))
    assert done["matmul"] == all_of["gate_up"] + all_of["down"]
    assert done["swiglu"] == all_of["gate_up"]
    assert done["scatter"] == all_of["down"]


@given(plans())
def test_each_panel_has_one_step_of_each_kind_on_its_unit(drawn: tuple[TilePlan, int]) -> None:
    plan, rows = drawn
    made = steps(plan, rows)
    panels = plan.ffn_panels + plan.hidden_panels
    assert len(made) == plan.row_tiles(rows) * (1 + 4 * panels)
    kinds = defaultdict(list)
    for step in made:
        assert step.unit == UNIT_OF[step.kind]
        if step.kind != "gather":
            kinds[step.row_tile, step.projection, step.panel].append(step)
    assert len(kinds) == plan.row_tiles(rows) * panels
    for (_, projection, _), of_panel in kinds.items():
        last = "swiglu" if projection == "gate_up" else "scatter"
        assert [step.kind for step in of_panel] == ["fetch", "decode", "matmul", last]
        assert (
            len({(step.first_column, step.columns, step.first_row, step.rows, step.buffer) for step in of_panel}) == 1
        )


@given(plans())
def test_a_step_waits_for_at_most_one_and_only_for_other_units(drawn: tuple[TilePlan, int]) -> None:
    made = steps(*drawn)
    for index, step in enumerate(made):
        assert step.index == index
        assert len(step.waits) <= 1
        assert all(wait < index and made[wait].unit != step.unit for wait in step.waits)
    assert sum(not step.waits for step in made if step.kind != "gather") == 2  # the first two fetches


def test_an_empty_slot_has_no_steps_and_a_negative_one_is_refused() -> None:
    plan = plan_for(64, 64, 32, 32, 32, MIB)
    assert steps(plan, 0) == ()
    with pytest.raises(EStreamError, match="-1 rows"):
        steps(plan, -1)


def test_short_last_tiles_and_panels() -> None:
    plan = plan_for(160, 96, 64, 64, 64, MIB)
    made = steps(plan, 70)
    assert [(step.first_row, step.rows) for step in made if step.kind == "gather"] == [(0, 64), (64, 6)]
    columns = [(step.projection, step.first_column, step.columns) for step in made if step.kind == "fetch"]
    one_tile = [("gate_up", 0, 64), ("gate_up", 64, 32), ("down", 0, 64), ("down", 64, 64), ("down", 128, 32)]
    assert columns == 2 * one_tile
    second = next(step for step in made if step.kind == "matmul" and step.row_tile == 1)
    assert [(access.region, access.offset, access.bytes) for access in second.reads] == [
        ("activations", 0, 32 * 160 * 2),
        ("decoded1", 0, 64 * 160 * 2),
        ("decoded1", 64 * 160 * 2, 64 * 160 * 2),
        ("scale", 0, 256),
    ]
    assert [(access.region, access.bytes) for access in second.writes] == [("output2", 4096), ("output3", 4096)]
    narrow = [step for step in made if step.kind == "swiglu"][1]
    assert [(access.offset, access.bytes) for access in narrow.writes] == [(2 * 2048, 2048), (5 * 2048, 2048)]


def ancestors(made: tuple[Step, ...]) -> list[set[int]]:
    """For each step all that must end before it starts, by units and waits."""
    last: dict[str, int] = {}
    before: list[set[int]] = []
    for step in made:
        direct = {*step.waits, *([last[step.unit]] if step.unit in last else [])}
        before.append(direct.union(*(before[i] for i in direct)))
        last[step.unit] = step.index
    return before


def test_units_work_side_by_side_as_the_pipeline_says() -> None:
    plan = plan_for(128, 128, 32, 32, 32, MIB)  # four panels each
    made = steps(plan, 64)
    before = ancestors(made)
    panel = [[step.index for step in made if step.kind == kind] for kind in ("fetch", "decode", "matmul")]
    fetch, decode, matmul = panel
    finish = [step.index for step in made if step.kind in ("swiglu", "scatter")]

    def side_by_side(a: int, b: int) -> bool:
        return a not in before[b] and b not in before[a]

    assert len(fetch) == len(finish) == 16
    for q in range(15):
        assert side_by_side(fetch[q + 1], decode[q])
        assert side_by_side(decode[q + 1], matmul[q])
        # all SwiGLU tiles are inputs of the first down product
        assert side_by_side(finish[q], matmul[q + 1]) == (q % 8 != 3)
    for q in range(14):
        assert side_by_side(fetch[q + 2], matmul[q]) and side_by_side(fetch[q + 2], finish[q])
    gathers = [step.index for step in made if step.kind == "gather"]
    assert side_by_side(gathers[1], matmul[7]) and side_by_side(fetch[0], gathers[0])


class ToyUnits:
    """Runs steps over granules of VTCM; what a step writes is made from what it reads and who it is."""

    def __init__(self, plan: TilePlan) -> None:
        self.memory = np.zeros(-(-plan.vtcm_bytes // GRANULE), np.uint64)
        self.offsets = {region.name: region.offset for region in plan.regions}
        for name in CONSTANTS:
            region = plan.region(name)
            self.memory[region.offset // GRANULE : region.end // GRANULE] = 1
        self.scattered: list[tuple[int, int, int]] = []

    def run(self, step: Step) -> None:
        def granules(region: str, offset: int, size: int) -> slice:
            first = self.offsets[region] + offset
            assert first % GRANULE == size % GRANULE == 0
            return slice(first // GRANULE, (first + size) // GRANULE)

        read = [self.memory[granules(a.region, a.offset, a.bytes)].tobytes() for a in step.reads]
        value = hash((step.kind, step.projection, step.row_tile, step.panel, *read)) % (1 << 64)
        for access in step.writes:
            self.memory[granules(access.region, access.offset, access.bytes)] = value
        if step.kind == "scatter":
            self.scattered.append((step.row_tile, step.panel, value))


def run(plan: TilePlan, made: tuple[Step, ...], order: list[int]) -> list[tuple[int, int, int]]:
    assert sorted(order) == list(range(len(made)))
    units = ToyUnits(plan)
    for index in order:
        units.run(made[index])
    return units.scattered


def any_order(made: tuple[Step, ...], rng: np.random.Generator) -> list[int]:
    """An order that units and waits allow; a unit drawn at the start is slow, so that others run far ahead."""
    before = ancestors(made)
    slow = rng.choice(["dma", "vector", "matrix"])
    done: set[int] = set()
    order: list[int] = []
    while len(order) < len(made):
        ready = [step for step in made if step.index not in done and before[step.index] <= done]
        quick = [step for step in ready if step.unit != slow]
        chosen = (quick or ready)[int(rng.integers(len(quick or ready)))]
        done.add(chosen.index)
        order.append(chosen.index)
    return order


@pytest.mark.parametrize("sizes", [(96, 96, 32, 32, 32), (64, 96, 32, 64, 64), (64, 32, 32, 32, 64)])
def test_any_order_that_units_and_waits_allow_gives_the_same_bytes(sizes: tuple[int, int, int, int, int]) -> None:
    plan = plan_for(*sizes, MIB)
    made = steps(plan, 70)
    expected = run(plan, made, list(range(len(made))))
    assert len(expected) == 3 * plan.hidden_panels
    rng = np.random.default_rng(11)
    orders = [any_order(made, rng) for _ in range(12)]
    assert len({tuple(order) for order in orders}) > 6
    for order in orders:
        assert run(plan, made, order) == expected


@pytest.mark.parametrize("sizes", [(96, 96, 32, 32, 32), (64, 32, 32, 32, 64)])
def test_without_any_one_wait_some_order_gives_other_bytes(sizes: tuple[int, int, int, int, int]) -> None:
    plan = plan_for(*sizes, MIB)
    made = steps(plan, 70)
    expected = run(plan, made, list(range(len(made))))
    waiting = [step for step in made if step.waits]
    assert len(waiting) == len(made) - 2 - 3
    for step in waiting:
        lax = list(made)
        lax[step.index] = dataclasses.replace(step, waits=())
        # what the step still has to wait for, the step itself, and then all the rest
        first = {*ancestors(tuple(lax))[step.index], step.index}
        order = sorted(range(len(made)), key=lambda index: (index not in first, index))
        assert run(plan, made, order) != expected
