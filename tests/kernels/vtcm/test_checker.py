import dataclasses
from collections.abc import Callable

import pytest

from estream_lab.kernels.vtcm.checker import Overlap, check
from estream_lab.kernels.vtcm.panels import Access
from estream_lab.kernels.vtcm.plan import Region, TilePlan, least_vtcm, plan_for, plan_tiles
from estream_lab.kernels.vtcm.steps import Step, steps

MIB = 1 << 20

FIVE_SHAPES = [(2048, 1024), (2048, 1792), (2048, 1408), (2048, 768), (4096, 14336)]

# H, F, M, Nf, Nd, rows: one and several row tiles, one panel and several, odd and even in all, short last ones
SMALL = [
    (32, 32, 32, 32, 32, 20),
    (32, 32, 32, 32, 32, 100),
    (128, 96, 32, 32, 32, 70),
    (96, 96, 64, 64, 64, 130),
    (160, 64, 32, 64, 64, 33),
    (64, 160, 32, 32, 64, 96),
    (64, 128, 64, 128, 32, 65),
]


def small(sizes: tuple[int, ...]) -> tuple[TilePlan, tuple[Step, ...]]:
    plan = plan_for(*sizes[:5], MIB)
    return plan, steps(plan, sizes[5])


def faults(found: list[Overlap]) -> set[str]:
    return {overlap.fault for overlap in found}


@pytest.mark.parametrize(("hidden", "ffn"), FIVE_SHAPES)
def test_the_five_shapes_are_sound(hidden: int, ffn: int) -> None:
    for vtcm in (8 * MIB, least_vtcm(hidden, ffn)):
        plan = plan_tiles(hidden, ffn, 40, vtcm)
        assert check(plan, steps(plan, 40)) == []
    plan = plan_tiles(hidden, ffn, 300, 8 * MIB)
    assert plan.row_tiles(300) > 1
    assert check(plan, steps(plan, 300)) == []


@pytest.mark.parametrize("sizes", SMALL)
def test_removing_any_one_wait_is_caught(sizes: tuple[int, ...]) -> None:
    plan, made = small(sizes)
    assert check(plan, made) == []
    waiting = [step for step in made if step.waits]
    assert len(waiting) == sum(step.kind != "gather" for step in made) - 2  # the first two fetches
    for step in waiting:
        lax = list(made)
        lax[step.index] = dataclasses.replace(step, waits=())
        found = check(plan, lax)
        assert any(
            overlap.fault == "unordered" and (overlap.earlier, overlap.later) == (step.waits[0], step.index)
            for overlap in found
        )


def test_a_collision_is_named_with_both_steps_and_the_region() -> None:
    plan, made = small(SMALL[2])
    decode = next(step for step in made if step.kind == "decode")
    lax = [dataclasses.replace(step, waits=()) if step is decode else step for step in made]
    assert [str(overlap) for overlap in check(plan, lax)] == [
        "compressed0: step 0 (fetch gate_up 0, row tile 0) and step 3 (decode gate_up 0, row tile 0) "
        "touch the same bytes, and neither has to wait"
    ]


def renamed(made: tuple[Step, ...], names: dict[str, str]) -> list[Step]:
    def to(accesses: tuple[Access, ...]) -> tuple[Access, ...]:
        return tuple(dataclasses.replace(access, region=names.get(access.region, access.region)) for access in accesses)

    return [dataclasses.replace(step, reads=to(step.reads), writes=to(step.writes)) for step in made]


@pytest.mark.parametrize(
    ("names", "region"),
    [
        ({"compressed1": "compressed0"}, "compressed0"),
        ({"decoded1": "decoded0"}, "decoded0"),
        ({"output2": "output0", "output3": "output1"}, "output0"),
        ({"output1": "output0"}, "output0"),
    ],
)
def test_one_buffer_in_place_of_two_is_caught(names: dict[str, str], region: str) -> None:
    plan, made = small(SMALL[2])
    found = check(plan, renamed(made, names))
    assert any(overlap.fault == "unordered" and overlap.region == region for overlap in found)


def test_steps_in_a_row_on_one_buffer_are_ordered_but_read_the_wrong_value() -> None:
    plan, made = small(SMALL[2])
    in_a_row = [dataclasses.replace(step, waits=(step.index - 1,) if step.index else ()) for step in made]
    assert check(plan, in_a_row) == []
    found = check(plan, renamed(tuple(in_a_row), {"compressed1": "compressed0"}))
    assert faults(found) == {"wrong value"}
    assert (found[0].earlier, found[0].later) == (1, 3)  # the second fetch, the first decode
    assert "reads what step 1 (fetch gate_up 1, row tile 0) left" in str(found[0])


def test_rows_of_the_row_tile_before_are_a_wrong_value() -> None:
    plan, made = small(SMALL[2])
    second = next(step for step in made if step.kind == "gather" and step.row_tile == 1)
    found = check(plan, without(made, second))
    assert faults(found) == {"wrong value"}
    assert {overlap.region for overlap in found} == {"activations"}


def without(made: tuple[Step, ...], gone: Step) -> list[Step]:
    """The steps with one fewer; who waited for it waits for what it waited for."""
    place = {step.index: step.index - (step.index > gone.index) for step in made}
    rest = []
    for step in made:
        waits = {w for wait in step.waits for w in (gone.waits if wait == gone.index else (wait,))}
        if step is not gone:
            rest.append(
                dataclasses.replace(step, index=place[step.index], waits=tuple(place[w] for w in sorted(waits)))
            )
    return rest


@pytest.mark.parametrize("kind", ["fetch", "decode", "gather", "matmul", "swiglu"])
def test_a_missing_step_is_caught(kind: str) -> None:
    plan, made = small(SMALL[2])
    for step in made:
        if step.kind == kind:
            assert faults(check(plan, without(made, step))) & {"unwritten", "wrong value"}


def moved(plan: TilePlan, name: str, offset: int) -> TilePlan:
    regions = tuple(Region(r.name, offset if r.name == name else r.offset, r.bytes) for r in plan.regions)
    return dataclasses.replace(plan, regions=regions)


@pytest.mark.parametrize(
    ("one", "other"),
    [("compressed0", "compressed1"), ("decoded0", "output2"), ("activations", "swiglu"), ("silu", "decoded1")],
)
def test_overlapping_regions_are_caught_in_the_plan_and_in_the_replay(one: str, other: str) -> None:
    plan, made = small(SMALL[2])
    bad = moved(plan, one, plan.region(other).offset)
    found = check(bad, made)
    assert any(overlap.fault == "regions" and {overlap.region, overlap.other} == {one, other} for overlap in found)
    assert faults(found) & {"unordered", "wrong value", "constant"}


def test_two_regions_of_different_size_swapped_are_caught() -> None:
    plan, made = small(SMALL[2])
    activations, scale = plan.region("activations"), plan.region("scale")
    swapped = moved(moved(plan, "activations", scale.offset), "scale", activations.offset)
    found = check(swapped, made)
    assert {"regions", "wrong value"} <= faults(found)


def test_a_region_inside_another_hides_no_overlap_behind_it() -> None:
    plan, _ = small(SMALL[2])
    regions = (Region("outer", 0, 4096), Region("inner", 128, 128), Region("last", 2048, 128))
    found = check(dataclasses.replace(plan, regions=regions), [])
    assert [(overlap.region, overlap.other) for overlap in found] == [("inner", "outer"), ("last", "outer")]


def test_a_region_behind_the_end_of_vtcm_is_caught() -> None:
    plan, made = small(SMALL[2])
    found = check(dataclasses.replace(plan, vtcm_bytes=plan.used_bytes - 1), made)
    assert [(overlap.fault, overlap.region) for overlap in found] == [("capacity", "compressed1")]
    assert check(dataclasses.replace(plan, vtcm_bytes=plan.used_bytes), made) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda access: dataclasses.replace(access, bytes=access.bytes + 128),
        lambda access: dataclasses.replace(access, offset=-128),
        lambda access: dataclasses.replace(access, bytes=0),
        lambda access: dataclasses.replace(access, region="compressed2"),
    ],
)
def test_an_access_outside_its_region_is_caught(change: Callable[[Access], Access]) -> None:
    plan, made = small((32, 32, 32, 32, 32, 32))
    bad = list(made)
    bad[0] = dataclasses.replace(made[0], writes=(made[0].writes[0], change(made[0].writes[1])))
    assert any(overlap.fault == "bounds" and overlap.later == 0 for overlap in check(plan, bad))


def test_a_write_to_a_constant_is_caught() -> None:
    plan, made = small(SMALL[2])
    gather = next(step for step in made if step.kind == "gather")
    bad = list(made)
    bad[gather.index] = dataclasses.replace(gather, writes=(*gather.writes, Access("silu", 1024, 2)))
    found = check(plan, bad)
    assert ("constant", "silu", gather.index) in {(overlap.fault, overlap.region, overlap.later) for overlap in found}
    overlapping = moved(plan, "activations", plan.region("silu").offset - 2048)
    found = check(overlapping, made[: gather.index + 1])  # nobody has read the table yet
    assert ("constant", "activations") in {(overlap.fault, overlap.region) for overlap in found}


def test_a_constant_read_in_place_of_rows_is_a_wrong_value() -> None:
    plan, made = small(SMALL[2])
    gather = next(step for step in made if step.kind == "gather")
    found = check(moved(plan, "activations", plan.region("silu").offset), without(made, gather))
    wrong = [overlap for overlap in found if overlap.fault == "wrong value"]
    assert {(overlap.region, overlap.earlier) for overlap in wrong} >= {("activations", -1)}
    assert any("reads what a constant left" in str(overlap) for overlap in wrong)


def test_rows_from_a_step_of_another_kind_are_a_wrong_value() -> None:
    plan, made = small(SMALL[2])
    bad = [dataclasses.replace(step, kind="swiglu") if step.kind == "gather" else step for step in made]
    assert faults(check(plan, bad)) == {"wrong value"}


def test_waits_that_point_forwards_or_at_nothing_are_caught() -> None:
    plan, made = small(SMALL[2])
    for wait in (5, 3, -1, 10_000):
        bad = list(made)
        bad[3] = dataclasses.replace(made[3], waits=(wait,))
        assert [(overlap.fault, overlap.later) for overlap in check(plan, bad)] == [("order", 3)]
    misplaced = check(plan, [dataclasses.replace(made[0], index=1), *made[1:]])
    assert [(overlap.fault, str(overlap)) for overlap in misplaced] == [("order", "step 1 stands at place 0")]
