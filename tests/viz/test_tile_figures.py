"""Figures of the tiled operator against offsets, roundings, lifetimes and bits that are worked out by other means."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import plotly.graph_objects as go
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from estream_lab.kernels.exact.accumulator_trace import Line, Word, accumulator_steps
from estream_lab.kernels.layout import pack_q4_32x32, pack_tiles
from estream_lab.kernels.vtcm import Step, TilePlan, plan_for, steps
from estream_lab.viz import figures
from estream_lab.viz.figures.accumulator import NAMES, bounds, cells
from estream_lab.viz.figures.decoded import rounding
from estream_lab.viz.figures.lifetimes import lifetimes
from estream_lab.viz.figures.step_diagram import KINDS, MOST_PLACES, Placed, placed
from estream_lab.viz.figures.theme import GREY
from estream_lab.viz.figures.tile_plan import TileChoice
from estream_lab.viz.figures.tiles import weight_place
from estream_lab.viz.figures.vtcm_map import LIMIT

from .hand_made import PROVENANCE

PLAN = plan_for(128, 192, 64, 96, 64, 1 << 20)  # two gate and up panels, two down panels
STEPS = steps(PLAN, 100)  # two row tiles
UNITS = ("dma", "vector", "matrix")
RNG = np.random.default_rng(11)
A = RNG.standard_normal(64).astype(np.float16).view(np.uint16)
B = (0.1 * RNG.standard_normal(64)).astype(np.float16).view(np.uint16)
A[8:16] = 0
CHOICE = TileChoice.of((128, 192), (64, 96, 64), 1 << 20, 100)
DRAWN: dict[str, Callable[[], go.Figure]] = {
    "accumulator_group": lambda: figures.accumulator_group(
        accumulator_steps(A, B, "hmx_v75_g8")[2], "hmx_v75_g8", PROVENANCE
    ),
    "accumulator_table": lambda: figures.accumulator_table(A, B, ["ieee_fp32", "hmx_v73_g4"], PROVENANCE),
    "decode_outcomes": lambda: figures.decode_outcomes(PROVENANCE),
    "decode_table": lambda: figures.decode_table(0.0123, PROVENANCE),
    "packed_layout": lambda: figures.packed_layout(45, 101, 64, 128, PROVENANCE),
    "step_diagram": lambda: figures.step_diagram(placed(STEPS), PROVENANCE),
    "tile_layout": lambda: figures.tile_layout(5, 12, PROVENANCE),
    "tile_plan": lambda: figures.tile_plan(CHOICE, 0, PROVENANCE),
    "vtcm_map": lambda: figures.vtcm_map(PLAN, STEPS, PROVENANCE),
}


def places_of(found: tuple[Step, ...]) -> list[int]:
    """Places by relaxation: a step is behind its unit's last one and what it waits for."""
    places = [0] * len(found)
    for _ in found:
        for i, step in enumerate(found):
            before = [other for other in found[:i] if other.unit == step.unit][-1:]
            places[i] = max([0, *(places[j] + 1 for j in (*step.waits, *(other.index for other in before)))])
    return places


def live(found: tuple[Step, ...], region: str, place: int) -> bool:
    """Whether somebody reads, at this place or later, what is in the region then, or writes it now."""
    places = places_of(found)
    touched = [
        (at, kind)
        for step, at in zip(found, places, strict=True)
        for kind, accesses in (("read", step.reads), ("write", step.writes))
        if region in {access.region for access in accesses}
    ]
    if any(at == place for at, _ in touched):
        return True
    later = sorted(touch for touch in touched if touch[0] > place)
    earlier = [touch for touch in touched if touch[0] < place]
    # the SwiGLU tiles are written in parts: one that is followed by another part is needed as well
    parts = region == "swiglu" and bool(earlier) and max(earlier)[1] == "write"
    return bool(earlier) and bool(later) and (later[0][1] == "read" or parts)


def heat(figure: go.Figure, number: int) -> NDArray[np.float64]:
    return np.array(figure.data[number].z, np.float64)


# ---- layouts


def test_a_tile_shows_where_the_packer_put_each_element() -> None:
    numbers = np.arange(1024, dtype=np.uint16).reshape(32, 32)
    memory = pack_tiles(numbers).view(np.uint16)
    for row, column in product(range(0, 32, 5), range(0, 32, 3)):
        figure = figures.tile_layout(row, column, PROVENANCE)
        byte = int(heat(figure, 0)[row, column])
        assert memory[byte // 2] == numbers[row, column]
        assert f"is at byte {byte}: " in figure.layout.title.text
        ring, other = figure.data[2], figure.data[4]
        assert (ring.x[0], ring.y[0]) == (column, row)
        assert heat(figure, 3)[other.y[0], other.x[0]] == byte
    path = figure.data[1]
    assert [numbers[y, x] for x, y in zip(path.x, path.y, strict=True)] == memory.tolist()


def test_a_packed_weight_is_where_the_packer_put_it() -> None:
    rng = np.random.default_rng(2)
    q, d = rng.integers(0, 16, (96, 64)).astype(np.uint8), rng.random((96, 2)).astype(np.float16)
    packed = pack_q4_32x32(q, d)
    for n, k in product(range(96), range(64)):
        place = weight_place(n, k, 96, 64)
        assert packed[place.byte] >> (4 if place.high else 0) & 15 == q[n, k]
        assert packed[place.scale : place.scale + 2].view(np.float16)[0] == d[n, k // 32]
        assert place.block * 576 <= place.byte < place.block * 576 + 512 <= place.scale


def test_the_packed_block_rings_the_weight_and_both_bytes_of_its_scale() -> None:
    figure = DRAWN["packed_layout"]()
    ring, byte, scale = figure.data[1], figure.data[3], figure.data[4]
    assert (ring.x[0], ring.y[0]) == (45 % 32, 101 % 32)
    start = (1 * 4 + 3) * 576
    memory = heat(figure, 2) + start
    assert figure.layout.title.text == (
        f"Weight (45, 101) is the high nibble of byte {int(memory[byte.y[0], byte.x[0]]):,}, "
        f"its scale at byte {int(memory[scale.y[0], scale.x[0]]):,}"
    )
    assert memory[byte.y[0], byte.x[0]] == start + 4 * 13 + 1  # k = 5 is the high nibble beside k = 1
    assert [memory[y, x] for x, y in zip(scale.x, scale.y, strict=True)] == [start + 512 + 26, start + 512 + 27]


@pytest.mark.parametrize(("n", "k", "outputs"), [(64, 0, 64), (0, 128, 64), (-1, 0, 64), (0, 0, 33)])
def test_a_weight_outside_of_the_projection_is_refused(n: int, k: int, outputs: int) -> None:
    with pytest.raises(ValueError, match="weight|multiples of 32"):
        weight_place(n, k, outputs, 128)


# ---- decoding


def test_the_table_rounds_as_numpy_does() -> None:
    for bits in (0x2400, 0x2401, 0x2553, 0x27FF, 0xA7FD):
        d = np.uint16(bits).view(np.float16)
        columns = figures.decode_table(float(d), PROVENANCE).data[0].cells["values"]
        for q, row in enumerate(zip(*columns, strict=True)):
            exact = Fraction(float(d)) * (q - 8)
            weight = np.float16(float(exact))
            rounded = Fraction(float(weight))
            assert row[:2] == (str(q), f"{q - 8:+d}" if q != 8 else "0")
            assert Fraction(int(row[2].replace(",", ""))) * abs(Fraction(float(d))) == abs(exact) * (
                1024 + (bits & 1023)
            )
            scale = Fraction(int(row[2].replace(",", ""))) / abs(exact) if exact else 1
            assert Fraction(int(row[4].replace(",", ""))) == abs(rounded) * scale
            assert (row[5] == "exact") == (rounded == exact)
            step = Fraction(float(np.spacing(abs(weight)))) if q != 8 else Fraction(1)
            assert (row[5] == "tie, to even") == (rounded != exact and abs(exact) / step % 1 == Fraction(1, 2))
            assert np.float16(row[6]) == weight
            assert int(row[7], 16) & 0x7FFF == weight.view(np.uint16) & 0x7FFF


def test_what_is_cut_off_is_written_behind_the_bar() -> None:
    assert rounding(float(np.uint16(0x2401).view(np.float16)), 15).product == 7 * 1025
    columns = figures.decode_table(float(np.uint16(0x27FF).view(np.float16)), PROVENANCE).data[0].cells["values"]
    assert columns[3][15] == f"{7 * 2047:b}"[:11] + " | " + f"{7 * 2047:b}"[11:]
    assert columns[3][7] == "11111111111"


def test_outcomes_are_counted_over_all_significands() -> None:
    bars = {bar.name: dict(zip(bar.x, bar.y, strict=True)) for bar in DRAWN["decode_outcomes"]().data}
    for w in range(1, 9):
        products = np.arange(1024, 2048) * w
        unit = 2 ** np.maximum(0, np.floor(np.log2(products)).astype(int) - 10)
        rest = products % unit
        assert bars["exact"][w] == (rest == 0).sum()
        assert bars["tie, to even"][w] == ((rest * 2 == unit) & (rest > 0)).sum()
        assert sum(bar[w] for bar in bars.values()) == 1024


# ---- memory and steps


def test_regions_lie_where_the_plan_puts_them() -> None:
    bars = DRAWN["vtcm_map"]().data[0]
    end = 0.0
    for region, base, size in zip(PLAN.regions, bars.base, bars.x, strict=True):
        assert (base * 2**20, size * 2**20) == (region.offset, region.bytes)
        assert base * 2**20 >= end
        end = (base + size) * 2**20
    assert [label.split()[0] for label in DRAWN["vtcm_map"]().layout.yaxis.ticktext] == [r.name for r in PLAN.regions]
    assert list(DRAWN["vtcm_map"]().data[1].x) == [1, 1]  # MiB


def test_a_region_is_filled_exactly_while_its_value_is_needed() -> None:
    drawn = ~np.isnan(heat(DRAWN["vtcm_map"](), 2))
    assert drawn.shape == (12, max(places_of(STEPS)) + 1)
    for row, region in enumerate(PLAN.regions):
        wanted = [region.name in ("silu", "scale") or live(STEPS, region.name, at) for at in range(drawn.shape[1])]
        assert drawn[row].tolist() == wanted, region.name


def test_a_new_value_has_a_new_shade() -> None:
    z = heat(DRAWN["vtcm_map"](), 2)
    row = [region.name for region in PLAN.regions].index("activations")
    runs = [value for i, value in enumerate(z[row]) if not np.isnan(value) and (i == 0 or z[row, i - 1] != value)]
    assert len(runs) == 2 and len(set(runs)) == 2  # two row tiles


def test_a_region_has_the_colour_of_the_steps_that_fill_it() -> None:
    figure = DRAWN["vtcm_map"]()
    names = [region.name for region in PLAN.regions]
    shades = [colour for _, colour in figure.data[2].colorscale[::4]]  # the first of two, from edge to edge
    for step, place in zip(STEPS, places_of(STEPS), strict=True):
        for row in {names.index(access.region) for access in step.writes}:
            assert figure.data[0].marker.color[row] == KINDS[step.kind]
            assert shades[int(heat(figure, 2)[row, place]) // 2] == KINDS[step.kind]


def test_the_share_of_needed_bytes_is_that_of_the_drawing() -> None:
    drawn = ~np.isnan(heat(DRAWN["vtcm_map"](), 2))
    sizes = np.array([region.bytes for region in PLAN.regions])
    share = (sizes @ drawn).mean() / sizes.sum()
    assert f"{share:.0%} of the plan's bytes" in DRAWN["vtcm_map"]().layout.title.subtitle.text


def test_the_diagram_keeps_units_in_order_and_draws_each_wait() -> None:
    figure = DRAWN["step_diagram"]()
    kinds, places = heat(figure, 0), places_of(STEPS)
    assert figure.layout.xaxis.title.text == "place in the order (no time)"
    assert "order, not time: every step takes one place" in figure.layout.title.subtitle.text
    shown = [(step, place) for step, place in zip(STEPS, places, strict=True) if place < kinds.shape[1]]
    assert np.count_nonzero(~np.isnan(kinds)) == len(shown)
    names = {"gate_up": "g", "down": "d"}
    for step, place in shown:
        row = UNITS.index(step.unit)
        assert int(kinds[row, place]) == list(KINDS).index(step.kind)
        name = f"{names[step.projection]}{step.panel}" if step.projection else f"r{step.row_tile}"
        assert figure.data[0].text[row][place] == name
    # a thin area each: there, across, back, closed, and a gap
    x, y = (np.array(values, float).reshape(-1, 6)[:, :2] for values in (figure.data[1].x, figure.data[1].y))
    wanted = sorted(
        (places[wait] + 0.5, place - 0.5, UNITS.index(STEPS[wait].unit), UNITS.index(step.unit))
        for step, place in shown
        for wait in step.waits
    )
    assert (
        sorted((*ends, *rows) for ends, rows in zip(x.tolist(), np.rint(y).astype(int).tolist(), strict=True)) == wanted
    )
    assert (x[:, 1] >= x[:, 0]).all()  # nothing starts before what it waits for has ended


def test_a_long_diagram_says_what_is_drawn() -> None:
    long = placed(steps(PLAN, 600))
    figure = figures.step_diagram(long, PROVENANCE, first=3)
    last = max(step.place for step in long) + 1
    assert f"places 3 to {2 + MOST_PLACES} of {last} are drawn" in figure.layout.title.subtitle.text
    assert heat(figure, 0).shape == (3, MOST_PLACES)
    whole = np.full((3, last), np.nan)
    for step in long:
        whole[UNITS.index(step.unit), step.place] = list(KINDS).index(step.kind) + 0.5
    assert np.array_equal(heat(figure, 0), whole[:, 3 : 3 + MOST_PLACES], equal_nan=True)


def test_nothing_drawn_for_no_steps() -> None:
    none: tuple[Placed, ...] = ()
    assert np.isnan(heat(figures.step_diagram(none, PROVENANCE), 0)).all()


def fits(plan: TilePlan, capacity: int) -> list[bool]:
    return [region.end <= capacity for region in plan.regions]


def test_a_plan_at_work_shows_map_and_steps_over_the_same_places() -> None:
    figure, map_figure, diagram = DRAWN["tile_plan"](), DRAWN["vtcm_map"](), DRAWN["step_diagram"]()
    assert np.array_equal(heat(figure, 2), heat(map_figure, 2), equal_nan=True)
    assert np.array_equal(heat(figure, 3)[:, : heat(diagram, 0).shape[1]], heat(diagram, 0), equal_nan=True)
    assert figure.data[2].xaxis == figure.data[3].xaxis == "x2"


def boxes(trace: go.Scatter) -> list[tuple[int, float, float]]:
    """Row, left and right of the boxes of an area."""
    x, y = (np.reshape(values, (-1, 6)) for values in (trace.x, trace.y))
    rows = np.rint((y.T[0] + y.T[2]) / 2).astype(int)
    return list(zip(rows.tolist(), x.T[0].tolist(), x.T[1].tolist(), strict=True))


@settings(max_examples=40)
@given(
    st.sampled_from([(128, 192), (512, 64), (96, 96)]),
    st.tuples(*[st.integers(1, 2).map(lambda tiles: 32 * tiles)] * 3),
    st.integers(1, 300),
)
def test_steps_and_values_are_those_of_the_plan_itself(
    shape: tuple[int, int], tiles: tuple[int, int, int], records: int
) -> None:
    choice = TileChoice.of(shape, tiles, 1 << 20, records)
    found = steps(plan_for(*shape, *tiles, 1 << 20), choice.drawn_rows)
    order = placed(found)
    assert choice.steps == order
    assert choice.lives == tuple(lifetimes(found, [step.place for step in order]))


def test_what_does_not_fit_is_red_and_has_no_steps() -> None:
    capacity = 300_000
    choice = TileChoice.of((128, 192), (64, 96, 64), capacity, 100)
    first = next(region for region in PLAN.regions if region.end > capacity)
    assert f"the region {first.name} takes {first.bytes:,} bytes" in choice.refusal
    figure = figures.tile_plan(choice, 0.5, PROVENANCE)
    *fit, line = boxes(figure.data[0])
    red = boxes(figure.data[1])
    assert (figure.data[0].fillcolor, figure.data[1].fillcolor) == (GREY, LIMIT)
    assert [row for row, *_ in fit] == [row for row, fitting in enumerate(fits(PLAN, capacity)) if fitting]
    assert [row for row, *_ in red] == [row for row, fitting in enumerate(fits(PLAN, capacity)) if not fitting]
    for row, left, right in (*fit, *red):
        region = PLAN.regions[row]
        assert left * 2**20 == region.offset
        assert right * 2**20 == region.end or region.bytes < 0.01 * PLAN.used_bytes  # too narrow to be seen
    assert line[1] * 2**20 == capacity
    assert np.isnan(heat(figure, 3)).all()
    assert len(figure.data) == len(DRAWN["tile_plan"]().data)


def test_the_window_reaches_the_first_and_the_last_place() -> None:
    long = replace(CHOICE, steps=placed(steps(PLAN, 1000)))
    assert long.window(0)[0] == 0
    first, shown = long.window(1)
    assert first + shown == long.places


# ---- the accumulator


@pytest.mark.parametrize("name", ["ieee_fp32", "hmx_v73_g4", "hmx_v75_g8"])
def test_cells_are_the_bits_of_each_number(name: str) -> None:
    for step in accumulator_steps(A, B, name):
        for line in step.lines:
            found = cells(line, sticky=False)
            value = Fraction(0)
            for place, cell in found.items():
                assert ("shifted out" in cell) == (place < line.after.place)
                digit = int(cell.split()[0] if cell[0] != "a" else cell[2])
                sign = -1 if place == max(found) else 1  # two's complement
                value += sign * digit * Fraction(2) ** place
            assert value == line.before.bits * Fraction(2) ** line.before.place


def test_a_set_last_bit_is_shown_where_ones_were_shifted_out_and_nowhere_else() -> None:
    lost = Line("", Word(0b100101, -10), Word(0b10011, -8))
    exact = Line("", Word(0b100100, -10), Word(0b1001, -8))
    assert [place for place, cell in cells(lost, True).items() if cell == NAMES[-1]] == [-8]
    assert NAMES[-1] not in cells(exact, True).values()
    assert NAMES[-1] not in cells(lost, False).values()  # fp32 rounds to nearest


def test_the_drawing_holds_the_group() -> None:
    step = accumulator_steps(A, B, "hmx_v75_g8")[2]
    figure = DRAWN["accumulator_group"]()
    z, (top, bottom) = heat(figure, 0), bounds(step)
    assert z.shape == (12, top - bottom + 1)
    for row, line in enumerate(step.lines):
        drawn = {top - column: NAMES[int(cell)] for column, cell in enumerate(z[row]) if not np.isnan(cell)}
        assert drawn == {place: cell for place, cell in cells(line, True).items() if place >= bottom}
    labels = figure.layout.yaxis.ticktext
    a, b = (codes.view(np.float16).astype(float) for codes in (A, B))
    assert [label.strip() for label in labels[:8]] == [f"product {k} = {a[k] * b[k]:+.5g}" for k in range(16, 24)]


def test_the_table_tells_the_exact_sum_and_each_error() -> None:
    table = DRAWN["accumulator_table"]()
    a, b = (codes.view(np.float16) for codes in (A, B))
    exact = sum((Fraction(float(m)) * Fraction(float(n)) for m, n in zip(a, b, strict=True)), start=Fraction(0))
    assert table.layout.title.text == f"One output, 64 products: exactly {float(exact):.12g}"
    rows = list(zip(*table.data[0].cells["values"], strict=True))
    assert [row[:2] for row in rows] == [("ieee_fp32", "1"), ("hmx_v73_g4", "4")]
    total = np.float32(0)
    for m, n in zip(a.astype(np.float32), b.astype(np.float32), strict=True):
        total = np.float32(total + m * n)
    assert rows[0][4:6] == (f"{total:.9g}", f"{float(total) - float(exact):+.2e}")
    assert rows[0][2] == "0 of 64" and rows[1][2] != "0 of 64"
    for row in rows:
        assert abs(float(row[6]) - float(exact)) < 1e-3
