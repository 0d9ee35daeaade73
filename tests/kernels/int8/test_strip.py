"""Rows are cut into register blocks that there are, and their records lie where products look for them."""

import pytest

from estream_lab.kernels.int8.dot import DOTS
from estream_lab.kernels.int8.scratch import ROW_BLOCK
from estream_lab.kernels.int8.strip import FEW_ROWS, record_place

BLOCKS = 3


@pytest.mark.parametrize("name", DOTS)
def test_many_rows_are_cut_into_the_two_largest_register_blocks(name: str) -> None:
    """Panels have no smaller ones."""
    most = DOTS[name].rows
    for rows in range(FEW_ROWS + 1, ROW_BLOCK + 1):
        assert rows // -(-rows // most) >= most - 1


def test_every_record_has_its_place() -> None:
    for rows in (*range(1, 50), ROW_BLOCK):
        places = set()
        for r in range(rows):
            first, step = record_place(rows, BLOCKS, r)
            assert step % 40 == 0 and 1 <= step // 40 <= DOTS["avx512-vnni"].rows
            places |= {first + step * block for block in range(BLOCKS)}
        assert places == set(range(0, 40 * rows * BLOCKS, 40))


def test_records_of_a_register_block_follow_each_other() -> None:
    first, step = record_place(1, BLOCKS, 0)
    assert (first, step) == (0, 40)
    rows = 2
    assert [record_place(rows, BLOCKS, r) for r in range(rows)] == [(0, 80), (40, 80)]
