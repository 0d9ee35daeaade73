"""Figures of bound routes and their addresses, on worked example C in an arena of two banks of two slots."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go

from estream_lab.experts import Arena, ExpertShape, RecordClass, compact
from estream_lab.experts.planes import ParameterPlanes
from estream_lab.experts.record_addresses import RecordAddresses
from estream_lab.viz import figures
from estream_lab.viz.figures.bound_route import BoundRoutes, bound_route_drawing
from estream_lab.viz.figures.memory_strips import Access, Memory, memory_strips, strip_labels
from estream_lab.viz.figures.theme import SEQUENCE

from .hand_made import PLACEMENT, PROVENANCE, ROUTES, binding

RECORD = RecordClass.of(ExpertShape(64, 96, ("q4-32x32",) * 3))
ARENA = Arena(2, 2, RECORD.stride)
PLANES = ParameterPlanes((1000, 5000, 9000), (100, 100, 120))


def bound(capacity: int = 2, slots: int = 4) -> BoundRoutes:
    """Example C bound to the first slots."""
    found = compact(ROUTES, PLACEMENT, 0, slots)
    addresses = RecordAddresses.of(found, ARENA.addresses(found.slot, RECORD), 256)
    return BoundRoutes(ROUTES, PLACEMENT, found, addresses, RECORD, 4, ARENA.stride, 256, capacity)


def example_table() -> go.Figure:
    addresses = RecordAddresses.of(binding(), PLANES.addresses(binding().slot), 4)
    return figures.records_table(binding(), addresses, PROVENANCE)


DRAWN: dict[str, Callable[[], go.Figure]] = {
    "bound_route": lambda: figures.bound_route(bound(), 4, PROVENANCE),
    "records_table": example_table,
}


def test_the_table_joins_each_record_with_its_addresses() -> None:
    columns = dict(zip(example_table().data[0].header["values"], example_table().data[0].cells["values"], strict=True))
    rows = list(zip(*columns.values(), strict=True))
    assert rows[4] == ("4", "2", "2", "4", "0.50", "p_X + 8", "1,200", "5,200", "9,240", "p_Y + 8")
    assert tuple(columns["<b>route i</b>"]) == ("5", "1", "2", "0", "4", "3")
    colours = example_table().data[0].cells["font"]["color"][1]
    assert tuple(colours) == tuple(SEQUENCE[slot] for slot in (0, 1, 1, 2, 2, 3))


def test_the_chosen_route_is_ringed_where_it_stands_and_where_its_record_does() -> None:
    psi, records, ring, record_ring = DRAWN["bound_route"]().data[:4]
    assert (list(psi.y), list(records.y)) == ([2, 1, 1, 3, 2, 0], [5, 1, 2, 0, 4, 3])
    assert (list(ring.x), list(ring.y)) == ([4], [2])
    assert (list(record_ring.x), list(record_ring.y)) == ([4], [4])


def test_borders_stand_between_slots_and_between_invocations() -> None:
    slots, cuts = DRAWN["bound_route"]().data[4:6]
    assert sorted(set(slots.x)) == [-0.5, 0.5, 2.5, 4.5, 5.5]
    assert sorted(set(cuts.x)) == [1.5, 3.5]  # six records, two an invocation
    whole = bound_route_drawing(bound(capacity=6), 4, PROVENANCE)
    assert len(whole["data"][5]["x"]) == 0


def test_a_route_bound_elsewhere_has_no_record_and_touches_no_memory() -> None:
    drawing = bound_route_drawing(bound(slots=2), 4, PROVENANCE)  # slot 2 is another bank's
    ring, record_ring = drawing["data"][2:4]
    assert (ring["x"], record_ring["x"]) == ([4], [])
    assert [len(trace["x"]) for trace in drawing["data"][7:]] == [0, 0, 0]
    assert len(drawing["data"]) == len(bound_route_drawing(bound(), 4, PROVENANCE)["data"])


def spans(trace: dict[str, np.ndarray], strip: int, scale: float) -> list[tuple[float, float]]:
    """Left and right ends of the boxes that a trace fills in a strip, in bytes."""
    boxes = trace["x"].reshape(-1, 6)[:, :5] * scale
    return [
        (round(min(b), 6), round(max(b), 6)) for b, y in zip(boxes, trace["y"][::6], strict=True) if round(y) == strip
    ]


def test_memory_fills_in_exactly_the_bytes_that_the_record_uses() -> None:
    memory = Memory(rows=3, row_bytes=256, slots=4, stride=8192, parts=(3000, 3000, 2000))
    access = Access(x=512, gate=16384, up=19384, down=22384, y=512)
    outline, reads, writes, way = memory_strips(memory, access, "#123456", {"xaxis": "x", "yaxis": "y"})
    assert spans(reads, 0, 768) == spans(writes, 2, 768) == [(512, 768)]
    assert spans(reads, 1, 32768) == [(16384, 19384), (19384, 22384), (22384, 24384)]
    assert spans(writes, 0, 768) == spans(writes, 1, 32768) == spans(reads, 2, 768) == []
    assert reads["fillcolor"] == "#123456"
    assert strip_labels(memory, access) == ["X[2] = p_X + 512", "arena, slot 2", "Y[2] = p_Y + 512"]
    rows, arena = outline["x"][outline["y"] < 0.5], outline["x"][abs(outline["y"] - 1) < 0.5]
    assert set(rows) == {0, 1 / 3, 2 / 3, 1}
    starts = 8192 * np.arange(4)[:, None] + [0, 3000, 6000, 8000]
    assert set(arena) == {*(starts.ravel() / 32768), 1}
    assert len(way["x"]) == 6


def test_strips_are_told_with_what_a_record_uses_or_with_their_sizes() -> None:
    figure = figures.bound_route(replace(bound(), row_bytes=256), 4, PROVENANCE)
    assert list(figure.layout.yaxis3.ticktext) == ["X[2] = p_X + 512", "arena, slot 2", "Y[2] = p_Y + 512"]
    figure = figures.bound_route(replace(bound(slots=2), row_bytes=256), 4, PROVENANCE)  # another bank's
    assert list(figure.layout.yaxis3.ticktext) == ["X  3 × 256 B", "arena  4 slots", "Y  3 × 256 B"]
