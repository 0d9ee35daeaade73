"""The checker against every pair of steps tried, on schedules that no plan made."""

from itertools import combinations_with_replacement

from hypothesis import given
from hypothesis import strategies as st

from estream_lab.kernels.vtcm.checker import check
from estream_lab.kernels.vtcm.panels import Access
from estream_lab.kernels.vtcm.plan import Region, TilePlan
from estream_lab.kernels.vtcm.steps import Step

TOY = TilePlan(32, 32, 32, 32, 32, 64, (Region("compressed0", 0, 40), Region("decoded0", 40, 24)))


@st.composite
def schedules(draw: st.DrawFn) -> list[Step]:
    made = []
    for index in range(draw(st.integers(2, 14))):
        touched = []
        for _ in range(draw(st.integers(1, 3))):
            region = draw(st.sampled_from(TOY.regions))
            offset = draw(st.integers(0, region.bytes - 1))
            touched.append(Access(region.name, offset, draw(st.integers(1, region.bytes - offset))))
        reads = draw(st.integers(0, len(touched)))
        waits = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        unit = draw(st.sampled_from(["dma", "vector", "matrix"]))
        accesses = tuple(touched[:reads]), tuple(touched[reads:])
        made.append(Step(index, unit, "fetch", "down", 0, 0, 0, 32, 0, 32, 0, *accesses, tuple(sorted(waits))))
    return made


def touch(a: tuple[Access, ...], b: tuple[Access, ...]) -> bool:
    return any(
        x.region == y.region and x.offset < y.offset + y.bytes and y.offset < x.offset + x.bytes for x in a for y in b
    )


def pairs_in_danger(made: list[Step]) -> set[tuple[int, int]]:
    """By trying every pair: bytes in common, one writes, no path of units and waits from one to the other."""
    before: list[set[int]] = []
    for step in made:
        direct = {*step.waits, *(other.index for other in made[: step.index] if other.unit == step.unit)}
        before.append(direct.union(*(before[i] for i in direct)))
    danger = set()
    for a, b in combinations_with_replacement(made, 2):
        if a is b:
            twice = any(touch((x,), (y,)) for i, x in enumerate(a.writes) for y in a.writes[i + 1 :])
            clash = twice or touch(a.reads, a.writes)
        else:
            clash = touch(a.writes, b.writes + b.reads) or touch(a.reads, b.writes)
        if clash and a.index not in before[b.index]:
            danger.add((a.index, b.index))
    return danger


@given(schedules())
def test_clocks_and_cells_find_what_trying_every_pair_finds(made: list[Step]) -> None:
    danger = pairs_in_danger(made)
    found = {(overlap.earlier, overlap.later) for overlap in check(TOY, made) if overlap.fault == "unordered"}
    assert found <= danger
    assert bool(found) == bool(danger)
