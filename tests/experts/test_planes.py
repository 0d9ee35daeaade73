"""Addresses of the parameter planes: worked example C, and the arena's own rule."""

import numpy as np

from estream_lab.experts import Arena, ExpertShape, RecordClass
from estream_lab.experts.planes import ParameterPlanes


def test_worked_example_c() -> None:
    planes = ParameterPlanes((1000, 5000, 9000), (100, 100, 120))
    gate, up, down = planes.addresses(np.array([0, 2, 3], np.int32))
    assert (gate.tolist(), up.tolist(), down.tolist()) == ([1000, 1200, 1300], [5000, 5200, 5300], [9000, 9240, 9360])


def test_an_arena_of_whole_records_is_another_setting_of_the_same_rule() -> None:
    record = RecordClass.of(ExpertShape(192, 128, ("q4-32x32", "f32", "q4-32x32")))
    arena, slots = Arena(2, 4, record.stride + 4096), np.arange(8, dtype=np.int32)
    planes = ParameterPlanes.of_records(record, arena.stride)
    assert record.gate_bytes != record.up_bytes
    for ours, its in zip(planes.addresses(slots), arena.addresses(slots, record), strict=True):
        assert np.array_equal(ours, its)


def test_an_address_may_exceed_32_bits() -> None:
    planes = ParameterPlanes((0, 0, 0), (2**30,) * 3)
    assert planes.addresses(np.array([7], np.int32))[0].tolist() == [7 * 2**30]
