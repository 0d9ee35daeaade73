"""Rows are cut into register blocks that there are, and their records lie where products look for them."""

import pytest

from estream_lab.kernels.bf16.dot import DOTS as BF16
from estream_lab.kernels.bf16.strip import lane as bf16_lane
from estream_lab.kernels.int8.dot import DOTS as INT8
from estream_lab.kernels.int8.strip import FEW_ROWS
from estream_lab.kernels.int8.strip import lane as int8_lane
from estream_lab.kernels.int8.strip_q8 import lane as octets_lane
from estream_lab.kernels.packed.lane import Lane, cut, least_of_many, record_place
from estream_lab.kernels.packed.scratch import ROW_BLOCK

BLOCKS = 3
LANES = [Lane(bytes, most, *[0] * 8) for bytes in (40, 64, 128) for most in (2, 5, 6, 8)]


@pytest.mark.parametrize("name", INT8)
def test_many_rows_of_int8_are_cut_into_the_two_largest_register_blocks(name: str) -> None:
    """Panels have no smaller ones."""
    assert least_of_many(INT8[name].rows, FEW_ROWS) == INT8[name].rows - 1


@pytest.mark.parametrize("name", BF16)
def test_many_rows_of_bf16_are_cut_into_the_two_largest_register_blocks(name: str) -> None:
    """Panels have no smaller ones, which would cost time to compile."""
    assert least_of_many(BF16[name].rows, BF16[name].packed_rows) == BF16[name].rows - 1


@pytest.mark.parametrize("most", range(1, 9))
def test_register_blocks_differ_by_a_row_at_most(most: int) -> None:
    for rows in range(1, ROW_BLOCK + 1):
        size, end = cut(rows, most)
        larger = end // (size + 1)
        assert end == larger * (size + 1) and (rows - end) % size == 0
        assert larger + (rows - end) // size == -(-rows // most)
        assert size + (larger > 0) <= most


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: f"{lane.record_bytes} bytes, {lane.block_rows} rows")
def test_every_record_has_its_place(lane: Lane) -> None:
    size = lane.record_bytes
    for rows in (*range(1, 50), ROW_BLOCK):
        places = set()
        for r in range(rows):
            first, step = record_place(lane, rows, BLOCKS, r)
            assert step % size == 0 and 1 <= step // size <= lane.block_rows
            places |= {first + step * block for block in range(BLOCKS)}
        assert places == set(range(0, size * rows * BLOCKS, size))


@pytest.mark.parametrize("lane", LANES, ids=lambda lane: f"{lane.record_bytes} bytes, {lane.block_rows} rows")
def test_records_of_a_register_block_follow_each_other(lane: Lane) -> None:
    size = lane.record_bytes
    assert record_place(lane, 1, BLOCKS, 0) == (0, size)
    assert [record_place(lane, 2, BLOCKS, r) for r in range(2)] == [(0, 2 * size), (size, 2 * size)]


def test_lanes_whose_records_are_the_same_cut_them_alike() -> None:
    """Nibbles and octets read the records that one function makes."""
    same = ("record_bytes", "block_rows", "records")
    assert [getattr(int8_lane(), name) for name in same] == [getattr(octets_lane(), name) for name in same]
    assert bf16_lane().records != int8_lane().records
