"""Rows are cut into register blocks that there are, and their records lie where products look for them."""

import numpy as np
import pytest
from llvmlite import ir
from numba import njit
from numpy.typing import NDArray

from estream_lab.kernels.apart import address_of, emitted
from estream_lab.kernels.bf16.dot import DOTS as BF16
from estream_lab.kernels.bf16.strip import lane as bf16_lane
from estream_lab.kernels.int8.dot import DOTS as INT8
from estream_lab.kernels.int8.strip import FEW_ROWS
from estream_lab.kernels.int8.strip import lane as int8_lane
from estream_lab.kernels.int8.strip_q8 import lane as octets_lane
from estream_lab.kernels.packed.lane import Lane, cut, least_of_many, row_records, tile_records
from estream_lab.kernels.packed.scratch import ROW_BLOCK
from estream_lab.kernels.vectors import store

BLOCKS = 3


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


def places(lane: Lane, rows: int, by: str) -> NDArray[np.int64]:
    """(rows, blocks): at which record a row's record of a block lies, of all that lie there; -1 where none does.

    What becomes records here are the addresses of numbers: they tell the row, and the block where rows are whole.
    """
    x = np.zeros((rows, BLOCKS, 32), np.float32)
    memory = np.zeros((rows * BLOCKS, lane.record_bytes // 8), np.int64)
    found = np.full((rows, BLOCKS), -1)
    if by == "rows":
        for r in range(rows):
            row_records(lane, x[r].ctypes.data, r, rows, BLOCKS, memory.ctypes.data)
        which = (memory[:, 0] - x.ctypes.data) // 128
        found.reshape(-1)[which] = np.arange(len(memory))
        return found
    for first in range(0, rows, ROW_BLOCK):
        tile, part = x[first : first + ROW_BLOCK, 0], memory[first * BLOCKS :]
        for block in range(BLOCKS):
            part[:] = 0
            flat = np.zeros(tile.size, np.float32)
            tile_records(lane, flat, len(tile), BLOCKS, block, part.ctypes.data)
            at = np.flatnonzero(part[:, 0])
            found[first + (part[at, 0] - flat.ctypes.data) // 128, block] = first * BLOCKS + at
    return found


def note(builder: ir.IRBuilder, x: ir.Value, record: ir.Value) -> None:
    """The address of 32 numbers, in place of their record."""
    store(builder, x, record, 0)


_note = emitted(note)


@njit
def notes(x: int, count: int, record: int, step: int) -> None:
    for i in range(count):
        _note(x + 128 * i, record + step * i)


@pytest.mark.parametrize("most", [2, 5, 6, 8])
@pytest.mark.parametrize("record_bytes", [40, 64, 128])
def test_every_record_has_its_place(record_bytes: int, most: int) -> None:
    lane = Lane(record_bytes, most, *[0] * 4, address_of(notes), 0, 0, 0)
    for rows in (*range(1, 50), ROW_BLOCK, ROW_BLOCK + 7):
        found = places(lane, rows, "rows")
        assert sorted(found.reshape(-1)) == list(range(rows * BLOCKS))
        assert (found == places(lane, rows, "tiles")).all()


def test_records_of_a_register_block_follow_each_other() -> None:
    lane = Lane(40, 2, *[0] * 4, address_of(notes), 0, 0, 0)
    assert places(lane, 1, "rows").tolist() == [[0, 1, 2]]
    assert places(lane, 3, "rows").tolist() == [[0, 2, 4], [1, 3, 5], [6, 7, 8]]


def test_lanes_whose_records_are_the_same_cut_them_alike() -> None:
    """Nibbles and octets read the records that one function makes."""
    same = ("record_bytes", "block_rows", "records")
    assert [getattr(int8_lane(), name) for name in same] == [getattr(octets_lane(), name) for name in same]
    assert bf16_lane().records != int8_lane().records
