"""Nothing is read or written beyond its arrays: they lie between forbidden pages, so that a byte too far would kill.

Where an array ends at such a page, its beginning is checked by another run in which it starts behind one. Faults are
planted too: each array once a byte too far, which has to kill, or the pages would guard nothing.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels.packed.banks import BANKS

PROGRAM = """
import signal
import sys
import numpy as np
from numba import njit
from estream_lab.kernels import host
from estream_lab.kernels.apart import call_at
from estream_lab.kernels.bf16 import strip as bf16
from estream_lab.kernels.int8 import strip as int8
from estream_lab.kernels.packed.lane import strip_product
from tests.kernels.guard_pages import array, ends, guarded
from tests.kernels.packed.banks import BANKS

BANK = BANKS[sys.argv[1]]
SCRATCH = BANK.room.Scratch
# with panels for more than `packed_rows` rows, wherever this processor uses them
LANE = int8.lane_of(int8.FEW_ROWS) if sys.argv[1] == "int8" else bf16.lane()


@njit
def make_record(lane, x, record):
    call_at(lane.records, x, 1, record, 0)


def strip_case(rows, at_end, wrong=None):
    "One strip of two panels and more, by raw addresses; `wrong` names the operand that lies a byte too far."
    blocks = 2 * LANE.panel_blocks + 3
    off = lambda name: (1 if at_end else -1) * (name == wrong)
    x = guarded(LANE.record_bytes * rows * blocks, at_end, off("records"))
    w = guarded(LANE.block_bytes * blocks, at_end, off("weights"))
    panel = guarded(SCRATCH.PANEL_BYTES, at_end, off("panel"))
    tile = array(np.empty(32 * rows, np.float32), at_end, 4 * off("tile"))
    strip_product(LANE, x, rows, w, blocks, panel, tile)
    make_record(LANE, guarded(128, at_end, off("source")), guarded(LANE.record_bytes, at_end, off("record")))


def operator_case(threads, at_end, wrong=False):
    "A bank of experts, its shares handed out to so many threads."
    host.set_threads(threads)
    bank = BANK.random(3, 96, 64, [7, 0, 65, 1])
    expected = bank.expected()
    scratch = SCRATCH(len(bank.token), bank.hidden, bank.ffn, threads)
    for name in ("x", "act", "panels", "tiles"):
        setattr(scratch, name, array(getattr(scratch, name), at_end))
    arena = np.concatenate([bank.arena, np.zeros(-len(bank.arena) % 4, np.uint8)])
    for name in ("x", "offsets", "token", "weight"):
        setattr(bank, name, array(getattr(bank, name), at_end))
    bank.arena = array(arena, at_end)
    y = array(np.zeros_like(bank.x), at_end)
    if wrong:
        bank.x = array(bank.x, at_end, 4 if at_end else -4)
    got = bank.run(scratch, y)
    assert got.tobytes() == expected.tobytes()


host.set_threads(1)
BANK.random(3, 96, 64, [1, 60]).run()  # compiles once for all children
make_record(LANE, guarded(128, False), guarded(LANE.record_bytes, False))
for at_end in (True, False):
    few, many = LANE.packed_rows, LANE.packed_rows + 1
    for rows in (*range(1, 2 * LANE.block_rows + 2), few, many, 2 * many):
        assert ends(strip_case, rows, at_end) == 0, (rows, at_end)
    for threads in range(1, min(2, host.thread_limit()) + 1):
        assert ends(operator_case, threads, at_end) == 0, (threads, at_end)
        assert ends(operator_case, threads, at_end, True) in (signal.SIGSEGV, signal.SIGBUS), (threads, at_end)
    for rows, names in ((few, "records weights tile source record"), (many, "records weights panel")):
        for name in names.split():
            killed = ends(strip_case, rows, at_end, name)
            assert killed in (signal.SIGSEGV, signal.SIGBUS), (rows, name, at_end, killed)
print("guarded")
"""


@pytest.mark.parametrize("lane", BANKS)
def test_no_kernel_reads_or_writes_a_byte_beyond_its_arrays(lane: str) -> None:
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", PROGRAM, lane], cwd=root, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "guarded\n"
