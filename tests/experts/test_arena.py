"""The arena: addresses, bank views, poison."""

from pathlib import Path

import numpy as np
import pytest

from estream_lab.errors import EStreamError
from estream_lab.experts import PAGE_BYTES, Arena, ExpertShape, RecordClass

RECORD = RecordClass.of(ExpertShape(192, 128, ("q4-32x32",) * 3))


def test_addresses_are_base_plus_slot_times_stride() -> None:
    """Worked example C's rule, with the planes of whole records: B^u = B^g + S_g, B^d = B^u + S_u."""
    arena = Arena(2, 2, RECORD.stride)
    gate, up, down = arena.addresses(np.array([0, 3], np.int32), RECORD)
    assert gate.tolist() == [0, 3 * RECORD.stride]
    assert (up - gate).tolist() == [RECORD.gate_bytes] * 2 and (down - up).tolist() == [RECORD.up_bytes] * 2
    assert down[1] + RECORD.down_bytes <= arena.nbytes


def test_memory_is_page_aligned_and_of_the_stated_size() -> None:
    arena = Arena(3, 4, RECORD.stride)
    assert arena.memory.ctypes.data % PAGE_BYTES == 0
    assert arena.nbytes == len(arena.memory) == 3 * 4 * RECORD.stride and arena.slots == 12


def huge_bytes() -> int:
    """Of this process's own memory."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("AnonHugePages:"))


def test_memory_is_in_huge_pages_where_the_system_has_them() -> None:
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    given = setting.exists() and "[never]" not in setting.read_text()
    before = huge_bytes() if given else 0
    arena = Arena(1, 4, 8 << 20)
    arena.memory.fill(1)
    assert (given and huge_bytes() - before >= 16 << 20) == given


def test_a_bank_is_one_view_where_strides_are_equal_else_one_a_slot() -> None:
    arena = Arena(2, 3, 2 * PAGE_BYTES)
    (whole,) = arena.bank_view(1, 2, 2 * PAGE_BYTES)
    whole[:] = b"\x07" * len(whole)
    assert np.flatnonzero(arena.memory).tolist() == list(range(3 * 2 * PAGE_BYTES, 5 * 2 * PAGE_BYTES))
    views = arena.bank_view(0, 3, PAGE_BYTES)
    for i, view in enumerate(views):
        view[:] = bytes([i + 1]) * len(view)
    starts = [i * 2 * PAGE_BYTES for i in range(3)]
    assert [arena.memory[s] for s in starts] == [1, 2, 3] and [arena.memory[s + PAGE_BYTES] for s in starts] == [0] * 3


def test_poison_is_nan_at_the_start_and_after_a_release() -> None:
    arena = Arena(2, 2, PAGE_BYTES, poison=True)
    assert np.isnan(arena.memory.view(np.float32)).all() and np.isnan(arena.memory.view(np.float16)).all()
    arena.memory[:] = 0
    arena.release(1)
    assert np.isnan(arena.memory.view(np.float32)).reshape(2, -1).all(axis=1).tolist() == [False, True]
    plain = Arena(1, 1, PAGE_BYTES)
    plain.memory[:] = 3
    plain.release(0)
    assert (plain.memory == 3).all()


def test_an_arena_without_a_slot_is_refused() -> None:
    with pytest.raises(EStreamError, match="at least one bank of one slot"):
        Arena(0, 2, PAGE_BYTES)
    with pytest.raises(ValueError, match="multiple of 4096"):
        Arena(1, 1, 100)


@pytest.mark.parametrize("banks", [1 << 40, 1 << 60])
def test_an_arena_beyond_memory_is_refused(banks: int) -> None:
    with pytest.raises(EStreamError, match="no memory for .* choose a smaller arena"):
        Arena(banks, 8, 1 << 20)
