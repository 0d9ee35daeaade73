"""A workspace is one set of memory for chunks of any length up to its own."""

from dataclasses import replace

import numpy as np
import pytest

from estream_lab.kernels.host import LinearSizes
from estream_lab.models.workspace import Workspace

from .test_spec import SPEC

SIZES = LinearSizes(row=80, panel=128, tile=24576)


def test_a_shorter_chunk_lies_in_the_same_memory() -> None:
    normed = np.zeros((9, SPEC.hidden), np.float32)
    whole = Workspace.make(SPEC, 9, 2, SIZES, normed)
    part = whole.first(4)
    for name, array in vars(whole).items():
        if isinstance(array, np.ndarray):
            found = getattr(part, name)
            assert np.shares_memory(found, array) and found.flags.c_contiguous
            assert found.shape == (4, array.shape[1])
    assert np.shares_memory(part.normed, normed)
    assert part.linear is whole.linear and part.attention is whole.attention


@pytest.mark.parametrize(("rows", "threads"), [(1, 1), (100, 3)])
def test_bytes_are_known_before_it_is_made(rows: int, threads: int) -> None:
    spec = replace(SPEC, kv_heads=SPEC.heads // 2)
    work = Workspace.make(spec, rows, threads, SIZES)
    arrays = [array for array in vars(work).values() if isinstance(array, np.ndarray)]
    held = sum(array.nbytes for array in arrays) + work.linear.nbytes + work.attention.nbytes
    assert Workspace.bytes_for(spec, rows, threads, SIZES) == work.nbytes == held - work.normed.nbytes
