"""Rows are cut into register blocks that there are."""

import pytest

from estream_lab.kernels.bf16.dot import DOTS
from estream_lab.kernels.bf16.expert import _place
from estream_lab.kernels.bf16.scratch import ROW_BLOCK
from estream_lab.kernels.bf16.strip import RECORD_BYTES, least_of_many, piece
from estream_lab.kernels.bf16.variants import variant

BLOCKS = 3


@pytest.mark.parametrize("name", DOTS)
def test_many_rows_are_cut_into_the_two_largest_register_blocks(name: str) -> None:
    """Panels have no smaller ones, which would cost time to compile."""
    assert least_of_many(DOTS[name]) == DOTS[name].rows - 1


def test_pieces_follow_each_other_and_differ_by_a_row_at_most() -> None:
    most = DOTS[variant().name].rows
    for rows in range(1, ROW_BLOCK + 1):
        pieces = [piece(rows, r) for r in range(rows)]
        assert all(first <= r < first + some for r, (first, some) in enumerate(pieces))
        sizes = [some for _, some in sorted(set(pieces))]
        assert sum(sizes) == rows and len(sizes) == -(-rows // most)
        assert sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1


def test_every_record_has_its_place() -> None:
    for rows in (*range(1, 50), ROW_BLOCK):
        places = set()
        for r in range(rows):
            first, step = _place(rows, r, BLOCKS)
            places |= {first + step * block for block in range(BLOCKS)}
        assert places == set(range(0, RECORD_BYTES * rows * BLOCKS, RECORD_BYTES))
